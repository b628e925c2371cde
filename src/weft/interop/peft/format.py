"""The folder format of a LoRA in PEFT: its files, tensor names, and the classifiers that equal weft's heads.

    adapter_config.json         the configuration
    adapter_model.safetensors   base_model.model.PATH.lora_A.weight [r, i], .lora_B.weight [o, r] and perhaps
                                .lora_B.bias [o], with DoRA .lora_magnitude_vector [o]; modules of
                                `modules_to_save` as base_model.model.PATH.NAME

weft also writes what PEFT has no field for:

    weft.json                   the task, the pooling of its head, the encoder's hash
    head.safetensors            weight [C, d] and bias [C], if the head is not the family's classifier
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
    """The family's classifier of sequences, if it computes logits like weft's heads; else None."""
    return anatomy_of(encoder).classifier


def with_classifier() -> list[str]:
    """The families for which `classifier_of` is not None."""
    return [family for family in FAMILIES if FAMILIES[family].classifier is not None]


def classifier_tensors(encoder: Any, weight: Tensor, bias: Tensor) -> dict[str, Tensor]:
    """Return the tensors of the family's classifier that equals weft's head, by their names inside it.

    Args:
        encoder: a Hugging Face encoder of one of `with_classifier()`, with a pooler.
        weight: the weight of the head, [C, d].
        bias: the bias of the head, [C].
    """
    classifier = anatomy_of(encoder).classifier
    assert classifier is not None, "the caller has checked `classifier_of`"
    tensors = {f"{classifier.output}weight": weight, f"{classifier.output}bias": bias}
    if classifier.pooler is not None:
        dense = encoder.pooler.dense
        tensors |= {f"{classifier.pooler}weight": dense.weight, f"{classifier.pooler}bias": dense.bias}
    return tensors


def has_encoders_pooler(encoder: Any, tensors: dict[str, Tensor]) -> bool:
    """Whether a classifier's copy of the pooler, if it has one, equals the encoder's pooler."""
    classifier = anatomy_of(encoder).classifier
    assert classifier is not None, "the caller has checked `classifier_of`"
    if classifier.pooler is None:
        return True
    dense = encoder.pooler.dense
    return all(
        torch.equal(tensors[f"{classifier.pooler}{name}"].to(value.device), value)
        for name, value in (("weight", dense.weight), ("bias", dense.bias))
    )
