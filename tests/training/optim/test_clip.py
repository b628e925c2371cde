"""Clipping, all gradients together or each part by itself."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from weft.training.optim.clip import clip_by, clip_each, clip_together, norms
from weft.training.settings import Training

SHAPES = st.lists(
    st.tuples(st.lists(st.integers(1, 5), min_size=1, max_size=3), st.booleans()), min_size=1, max_size=5
)
GRADIENTS = given(SHAPES, st.integers(0, 10**6), st.floats(0.01, 5))


def drawn(shapes, seed):
    """Gradients of these shapes, each part of its own length; some slots are zero."""
    generator = torch.Generator().manual_seed(seed)
    found = []
    for shape, stacked in shapes:
        gradient = torch.randn(shape, generator=generator)
        sizes = 10 ** torch.empty(shape[0]).uniform_(-2, 2, generator=generator)
        sizes[torch.rand(shape[0], generator=generator) < 0.2] = 0.0
        found.append((gradient * sizes.view(-1, *[1] * (len(shape) - 1)), stacked))
    return found


def parts(gradients):
    return [part for g, stacked in gradients for part in (g.unbind() if stacked else [g])]


def copied(gradients):
    return [(g.clone(), stacked) for g, stacked in gradients]


@GRADIENTS
def test_each_part_is_shortened_to_the_limit_and_keeps_its_direction(shapes, seed, limit):
    before = drawn(shapes, seed)
    after = copied(before)
    told = torch.cat([n.view(-1) for n in clip_each(after, limit)])
    for one, other, norm in zip(parts(before), parts(after), told, strict=True):
        assert norm == pytest.approx(float(one.norm()), rel=1e-5)
        assert float(other.norm()) <= limit * (1 + 1e-5)
        if norm < limit - 1e-5:
            assert torch.equal(one, other)  # below the limit nothing is touched
        elif norm > limit + 1e-5:
            torch.testing.assert_close(other, one * (limit / norm), rtol=1e-3, atol=0)


@GRADIENTS
def test_a_slot_is_clipped_as_if_it_were_a_parameter_of_its_own(shapes, seed, limit):
    stacked = drawn(shapes, seed)
    apart = [p.clone() for p in parts(stacked)]
    clip_each(stacked, limit)
    for gradient in apart:
        torch.nn.utils.clip_grad_norm_([holder(gradient)], limit)
    for one, other in zip(parts(stacked), apart, strict=True):
        assert torch.equal(one, other)


def holder(gradient):
    parameter = torch.nn.Parameter(torch.zeros_like(gradient))
    parameter.grad = gradient
    return parameter


@GRADIENTS
def test_together_is_torch_s_own_to_the_bit(shapes, seed, limit):
    ours = [g for g, _ in drawn(shapes, seed)]
    theirs = [holder(g.clone()) for g in ours]
    norm = clip_together(ours, limit)
    assert norm == torch.nn.utils.clip_grad_norm_(theirs, limit, foreach=True)
    for one, other in zip(ours, theirs, strict=True):
        assert torch.equal(one, other.grad)
    assert float(torch.cat([g.flatten() for g in ours]).norm()) <= limit * (1 + 1e-5)


def test_norms_may_come_from_elsewhere():
    def twice(tensors):
        return [2 * n for n in norms(tensors)]

    gradient = torch.tensor([[3.0, 4.0], [0.3, 0.4]])
    clip_each([(gradient, True)], 1.0, twice)
    torch.testing.assert_close(gradient, torch.tensor([[0.3, 0.4], [0.3, 0.4]]), rtol=1e-5, atol=0)
    clip_together([gradient], 0.5, twice)
    torch.testing.assert_close(gradient.norm(), torch.tensor(0.25), rtol=1e-5, atol=0)


def test_nothing_to_clip():
    assert clip_each([], 1.0) == norms([]) == []
    assert clip_together([], 1.0) == 0


def test_what_the_limit_is_of():
    assert clip_by(Training()) == "global"
    assert clip_by(Training(optimizer="bert_adam")) == "tensor"
    assert clip_by(Training(optimizer="bert_adam", clip_by="global")) == "global"
    assert clip_by(Training(clip_by="tensor")) == "tensor"
