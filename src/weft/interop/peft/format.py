"""The folder that PEFT keeps a LoRA in: its files, the names of its tensors, and the heads that fit weft's.

    adapter_config.json         the configuration
    adapter_model.safetensors   base_model.model.PATH.lora_A.weight [r, i], .lora_B.weight [o, r] and perhaps
                                .lora_B.bias [o]; modules of `modules_to_save` as base_model.model.PATH.NAME

Beside them weft writes what PEFT has no word for:

    weft.json                   the task, what its head reads, the encoder's hash
    head.safetensors            weight [C, d] and bias [C], where the head is not one of the family's own
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from weft.encoder.anatomy import anatomy_of
from weft.encoder.families import FAMILIES, Classifier

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


def classifier_of(encoder: Any) -> Classifier | None:
    """How the family's model for sequence classification computes logits, where weft's heads do the same."""
    return anatomy_of(encoder).classifier


def with_classifier() -> list[str]:
    """The families of which `classifier_of` finds one."""
    return [family for family in FAMILIES if FAMILIES[family].classifier is not None]


def classifier_tensors(encoder: Any, weight: Tensor, bias: Tensor) -> dict[str, Tensor]:
    """The tensors of the family's own classifier that computes weft's head, by their names inside it.

    Args:
        encoder: a Hugging Face encoder of one of `with_classifier()`, with a pooler.
        weight: the head's, [C, d].
        bias: the head's, [C].
    """
    own = anatomy_of(encoder).classifier
    assert own is not None, "the caller has asked `classifier_of`"
    found = {f"{own.output}weight": weight, f"{own.output}bias": bias}
    if own.pooler is not None:
        dense = encoder.pooler.dense
        found |= {f"{own.pooler}weight": dense.weight, f"{own.pooler}bias": dense.bias}
    return found


def has_encoders_pooler(encoder: Any, tensors: dict[str, Tensor]) -> bool:
    """Whether a classifier's copy of the pooler, if it has one, is the encoder's own pooler."""
    own = anatomy_of(encoder).classifier
    assert own is not None, "the caller has asked `classifier_of`"
    if own.pooler is None:
        return True
    dense = encoder.pooler.dense
    return all(
        torch.equal(tensors[f"{own.pooler}{name}"].to(mine.device), mine)
        for name, mine in (("weight", dense.weight), ("bias", dense.bias))
    )
