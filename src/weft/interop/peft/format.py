"""The folder that PEFT keeps a LoRA in: its files, the names of its tensors, and the heads that fit weft's.

    adapter_config.json         the configuration
    adapter_model.safetensors   base_model.model.PATH.lora_A.weight [r, i], .lora_B.weight [o, r] and perhaps
                                .lora_B.bias [o]; modules of `modules_to_save` as base_model.model.PATH.NAME

Beside them weft writes what PEFT has no word for:

    weft.json                   the task, what its head reads, the encoder's hash
    head.safetensors            weight [C, d] and bias [C], where the head is not one of the family's own
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from torch import Tensor

CONFIG_FILE = "adapter_config.json"
WEIGHTS_FILE = "adapter_model.safetensors"
OLD_WEIGHTS_FILE = "adapter_model.bin"
WEFT_FILE = "weft.json"
HEAD_FILE = "head.safetensors"
README_FILE = "README.md"

FORMAT = 1
ROOT = "base_model.model."
CLASSIFIER = "classifier"
SEQ_CLS = "SEQ_CLS"
ENCODER_ALONE = "FEATURE_EXTRACTION"


@dataclass(frozen=True)
class OwnHead:
    """How a family's own head for sequence classification is the same function as weft's on the pooler.

    Attributes:
        output: the linear map [C, d] to the logits, from the classifier.
        pooler: the copy of the encoder's pooler that the classifier brings along, from the classifier; None
            where it reads the encoder's.
    """

    output: str
    pooler: str | None = None


_WITH_POOLER = OwnHead("out_proj.", "dense.")

OWN_HEADS: dict[str, OwnHead] = {
    "bert": OwnHead(""),
    "roberta": _WITH_POOLER,
    "xlm-roberta": _WITH_POOLER,
    "camembert": _WITH_POOLER,
    "mpnet": _WITH_POOLER,
}
"""By `model_type`: logits = W·tanh(P·hidden[:, 0] + p) + b, which is weft's head with `pool: pooler`.

The heads of the others have a hidden layer that no encoder has: ELECTRA's and DeBERTa's end it with gelu,
DistilBERT's with relu, ModernBERT's with gelu and a norm.
"""


def classifier_tensors(encoder: Any, weight: Tensor, bias: Tensor) -> dict[str, Tensor]:
    """The tensors of the family's own classifier that computes weft's head, by their names inside it.

    Args:
        encoder: a Hugging Face encoder of one of `OWN_HEADS`, with a pooler.
        weight: the head's, [C, d].
        bias: the head's, [C].
    """
    own = OWN_HEADS[encoder.config.model_type]
    found = {f"{own.output}weight": weight, f"{own.output}bias": bias}
    if own.pooler is not None:
        dense = encoder.pooler.dense
        found |= {f"{own.pooler}weight": dense.weight, f"{own.pooler}bias": dense.bias}
    return found


def has_encoders_pooler(encoder: Any, tensors: dict[str, Tensor]) -> bool:
    """Whether a classifier's copy of the pooler, if it has one, is the encoder's own pooler."""
    own = OWN_HEADS[encoder.config.model_type]
    if own.pooler is None:
        return True
    dense = encoder.pooler.dense
    return all(
        torch.equal(tensors[f"{own.pooler}{name}"].to(mine.device), mine)
        for name, mine in (("weight", dense.weight), ("bias", dense.bias))
    )
