"""The further block: whatever the rows, every token of its output is the mean of the encoder's output."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.support.tiny import CONFIGS, CORE_CONFIGS, tiny
from weft.encoder.anatomy import anatomy_of
from weft.interop.hf.mean_block import FAMILIES, write_mean_block


def encoder_of(family: str, seed: int) -> Any:
    """An encoder whose norms have weights and biases as trained ones have."""
    encoder: Any = tiny(family, layers=3)
    draw = torch.Generator().manual_seed(seed)
    for name, parameter in encoder.named_parameters():
        if "norm" in name.lower():
            around = 1.0 if name.endswith("weight") else 0.0
            with torch.no_grad():
                parameter.copy_(around + 0.3 * torch.randn(parameter.shape, generator=draw))
    return encoder.eval()


@cache
def both(family: str) -> tuple[Any, Any]:
    """The output of the block before the last, and an encoder whose last block computes the mean."""
    return encoder_of(family, 0), _with_mean(encoder_of(family, 0))


def _with_mean(encoder: Any) -> Any:
    write_mean_block(encoder)
    return encoder


def test_the_families_are_those_of_the_tests():
    assert {family for family in FAMILIES if family in CONFIGS | CORE_CONFIGS} == FAMILIES


@pytest.mark.parametrize("family", sorted(FAMILIES))
@given(st.lists(st.integers(1, 20), min_size=1, max_size=5), st.integers(0, 2**32 - 1))
def test_every_token_is_the_mean(family, lengths, seed):
    plain, mean = both(family)
    mask = (torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]).long()
    draw = torch.Generator().manual_seed(seed)
    ids = torch.randint(5, plain.config.vocab_size, mask.shape, generator=draw) * mask
    blocks = plain.get_submodule(anatomy_of(plain).blocks)
    kept = []
    handle = blocks[-2].register_forward_hook(
        lambda module, args, output: kept.append(output[0] if isinstance(output, tuple) else output)
    )
    with torch.no_grad():
        plain(ids, attention_mask=mask)
        found = mean(ids, attention_mask=mask).last_hidden_state
    handle.remove()
    (hidden,) = kept
    expected = (hidden * mask[..., None]).sum(1) / mask.sum(1, keepdim=True)
    for row, right in zip(found, expected, strict=True):
        torch.testing.assert_close(row, right.expand_as(row), rtol=1e-5, atol=1e-5)
