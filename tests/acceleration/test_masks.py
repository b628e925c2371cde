"""Masks that a graph can make are those of Hugging Face."""

from __future__ import annotations

import pytest
import torch
from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS, eager_mask

from tests.support.tiny import CONFIGS, batch, build, scramble
from weft.acceleration import masks


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("skip", [True, False])
@pytest.mark.parametrize("padded", [True, False])
def test_the_same_values(dtype, skip, padded):
    mask = torch.ones(3, 5, dtype=torch.bool)
    mask[1, 3:] = not padded
    given = {"batch_size": 3, "q_length": 5, "kv_length": 5, "attention_mask": mask, "dtype": dtype}
    found = masks.eager_mask(**given, allow_is_bidirectional_skip=skip)
    expected = eager_mask(**given, allow_is_bidirectional_skip=skip)
    assert (found is None) == (expected is None)
    if expected is not None:
        assert found.dtype == expected.dtype
        assert torch.equal(found.expand_as(expected), expected)


@pytest.mark.parametrize("family", CONFIGS)
def test_every_family_answers_the_same(family):
    model = scramble(build(family, "lora")).eval()
    inputs = batch(model)
    before = ALL_MASK_ATTENTION_FUNCTIONS["eager"]
    with torch.no_grad():
        expected = model(**inputs).hidden
        with masks.capturable_masks():
            assert ALL_MASK_ATTENTION_FUNCTIONS["eager"] is masks.eager_mask
            assert torch.equal(model(**inputs).hidden, expected)
    assert ALL_MASK_ATTENTION_FUNCTIONS["eager"] is before
