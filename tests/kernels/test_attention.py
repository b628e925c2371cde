"""Attention in one tile: its mask, where it is taken, and, where there is Triton, what it computes.

Without a GPU the kernels run in Triton's interpreter, which needs `TRITON_INTERPRET=1` and Triton installed.
"""

from __future__ import annotations

import math
import os

import pytest
import torch
from transformers.masking_utils import bidirectional_mask_function, sdpa_mask

from weft.acceleration.attention import mask as full_mask
from weft.acceleration.attention import mask_in_tiles
from weft.kernels.attention import HERE, LONGEST, attend, fits, runs_on

CUDA = torch.cuda.is_available()
DEVICE = "cuda" if CUDA else "cpu"
RUNS = HERE and (CUDA or os.environ.get("TRITON_INTERPRET") == "1")
pytestmark = pytest.mark.gpu_too
kernels = pytest.mark.skipif(not RUNS, reason="needs Triton and a GPU, or TRITON_INTERPRET=1")

SHAPES = [(2, 3, 16, 16), (2, 2, 24, 32), (1, 2, 40, 16), (3, 1, 7, 16), (1, 1, 128, 64)]


def given(rows, heads, length, width, dtype=torch.float32):
    """Queries, keys and values as parts of one product, and what is added to the scores."""
    torch.manual_seed(length)
    whole = torch.randn(rows, length, 3 * heads * width, device=DEVICE, dtype=dtype)
    parts = (x.view(rows, length, heads, width).transpose(1, 2) for x in whole.chunk(3, -1))
    bias = torch.zeros(rows, 1, 1, length, device=DEVICE, dtype=dtype)
    bias[0, ..., length - 3 :] = -math.inf
    return [x.detach().requires_grad_() for x in parts], bias


def plain(q, k, v, bias, scale):
    scores = q @ k.transpose(-1, -2) * scale
    return ((scores if bias is None else scores + bias).softmax(-1) @ v).transpose(1, 2)


@kernels
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("masked", ["none", "a key", "a key, as wide as the scores", "every score"])
def test_it_is_attention_with_its_gradients(shape, masked):
    parts, bias = given(*shape)
    if masked == "none":
        bias = None
    elif masked != "a key":
        bias = bias.expand(-1, -1, shape[2], -1)
        bias = bias if "wide" in masked else bias + torch.randn_like(bias)
    expected = plain(*parts, bias, 0.3)
    found = attend(*parts, bias, 0.0, 0.3)
    grad = torch.randn_like(expected)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
    for a, b in zip(
        torch.autograd.grad(found, parts, grad), torch.autograd.grad(expected, parts, grad), strict=True
    ):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)


@kernels
def test_where_no_key_is_allowed_nothing_comes():
    parts, bias = given(1, 1, 16, 16)
    found = attend(*parts, torch.full_like(bias, -math.inf), 0.0, 1.0)
    assert not found.any()
    assert all(torch.isfinite(x).all() for x in torch.autograd.grad(found.sum(), parts))


@kernels
@pytest.mark.parametrize("full", [False, True])
def test_the_lowest_number_is_a_number(full):
    """Where a mask has it for all keys of a row, all count alike, as for torch."""
    parts, bias = given(2, 1, 16, 16)
    bias[1] = torch.finfo(torch.bfloat16).min
    bias = bias.expand(-1, -1, 16, -1).contiguous() if full else bias
    torch.testing.assert_close(attend(*parts, bias, 0.0, 0.3), plain(*parts, bias, 0.3), rtol=1e-4, atol=1e-5)


@kernels
def test_errors_of_its_compiler_are_told_as_torchs(monkeypatch):
    from triton.runtime.errors import OutOfResources

    from weft.kernels import attention_triton as kernels_attention_tiles

    def fails(*given):
        raise OutOfResources(2, 1, "shared memory")

    monkeypatch.setattr(kernels_attention_tiles, "forward", fails)
    parts, bias = given(1, 1, 16, 16)
    with pytest.raises(RuntimeError, match="attention in tiles: out of resource: shared memory"):
        attend(*parts, bias, 0.0, 1.0)


def kept_of(rows, heads, length, p, seed):
    """Which probabilities were kept: all are equal, and values are the unit vectors."""
    torch.manual_seed(seed)
    zeros = torch.zeros(rows, heads, length, length, device=DEVICE)
    unit = torch.eye(length, device=DEVICE).expand(rows, heads, -1, -1).contiguous().requires_grad_()
    out = attend(zeros, zeros, unit, None, p, 1.0)
    return out.transpose(1, 2) * length * (1 - p), unit, out


@kernels
@pytest.mark.parametrize("p", [0.1, 0.6])
def test_dropout_leaves_out_its_share_and_the_backward_the_same(p):
    kept, unit, out = kept_of(8, 4, 32, p, 0)
    assert set(kept.detach().round(decimals=3).unique().tolist()) == {0.0, 1.0}
    error = (p * (1 - p) / kept.numel()) ** 0.5
    assert abs(float(kept.detach().mean()) - (1 - p)) < 5 * error
    programs = kept.detach().flatten(0, 1).flatten(1)
    alike = (programs[:, None] == programs[None]).double().mean(-1)
    alike.fill_diagonal_(p * p + (1 - p) ** 2)
    assert (
        float((alike - p * p - (1 - p) ** 2).abs().max()) < 6 * (0.25 / 1024) ** 0.5
    )  # heads and rows differ
    grad = torch.randn_like(out)
    (found,) = torch.autograd.grad(out, unit, grad)
    expected = (kept / 32 / (1 - p)).transpose(-1, -2) @ grad.transpose(1, 2)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


@kernels
def test_dropout_is_drawn_by_seed():
    first, again, other = (kept_of(2, 2, 16, 0.5, seed)[0] for seed in (0, 0, 1))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_it_is_taken_on_a_gpu_in_half_precision_alone():
    parts, bias = given(1, 1, 16, 16)
    assert not fits(parts[0].cpu(), parts[1].cpu(), bias)
    halves = [x.bfloat16() for x in parts]
    assert fits(halves[0], halves[1], bias) == CUDA
    assert not runs_on(torch.device("cpu"))
    longer = torch.zeros(1, 1, LONGEST + 1, 16, dtype=torch.bfloat16, device=DEVICE)
    assert not fits(longer, longer, None)
    odd = torch.zeros(1, 1, 16, 20, dtype=torch.bfloat16, device=DEVICE)
    assert not fits(odd, odd, None)
    assert not fits(halves[0], halves[1], bias.bool())
    wide = torch.zeros(1, 1, LONGEST, 128, dtype=torch.bfloat16, device=DEVICE)
    assert not fits(wide, wide, None)  # more than a block of threads has room for


@pytest.mark.parametrize("length", [8, LONGEST, LONGEST + 8])
def test_the_mask_says_what_hugging_faces_says(length):
    lengths = torch.tensor([length, 3, 1])
    tokens = (torch.arange(length) < lengths[:, None]).long()
    asked = {
        "batch_size": 3,
        "q_length": length,
        "kv_length": length,
        "mask_function": bidirectional_mask_function,
        "attention_mask": tokens.bool(),
        "allow_is_causal_skip": False,
    }
    found, allowed = mask_in_tiles(**asked), sdpa_mask(**asked)
    assert found.shape == allowed.shape
    assert torch.equal(found == 0, allowed)
    assert torch.equal(found == -math.inf, ~allowed)
    assert (found.stride(2) == 0) == (length <= LONGEST)  # queries share memory in tiles
    assert torch.equal(full_mask(**asked), found)
