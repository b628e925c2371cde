"""Dropout by a hash: how much it leaves out, of what, and that its gradient leaves out the same."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from tests.support.inductor import compile_quickly
from tests.support.patching import inputs_of
from tests.support.tiny import TASKS, build, labels, scramble
from weft.acceleration.compiled import Compiled, blocks_of
from weft.acceleration.hashed_dropout import FusedDropout, HashedDropout, drawn
from weft.kernels.attention import MANY
from weft.kernels.dropout import KEYS

SHAPE = (64, 32, 128)


def key_of(seed: int) -> torch.Tensor:
    made = torch.Generator().manual_seed(seed)
    return torch.empty(2, dtype=torch.int32).random_(generator=made)


def kept(seed: int, p: float) -> torch.Tensor:
    numbers = drawn(torch.empty(SHAPE), key_of(seed))
    assert int(numbers.min()) >= 0
    return (numbers >= round(p * MANY)).double()


def far(found: float, expected: float, count: int) -> float:
    """By how many standard errors a share is off."""
    return abs(found - expected) / (expected * (1 - expected) / count) ** 0.5


@pytest.mark.parametrize("p", [0.05, 0.1, 0.5])
@pytest.mark.parametrize("seed", range(4))
def test_as_many_are_kept_as_asked_for(seed, p):
    found = kept(seed, p)
    assert far(float(found.mean()), 1 - p, found.numel()) < 5
    for axis in range(3):  # no row, token or lane is favoured
        lines = found.movedim(axis, 0).flatten(1)
        shares = (lines.mean(1) - (1 - p)) / (p * (1 - p) / lines.size(1)) ** 0.5
        assert float(shares.abs().max()) < 5
        assert 0.6 < float(shares.std()) < 1.5


def test_places_and_keys_know_nothing_of_each_other():
    p = 0.3
    alike = p * p + (1 - p) * (1 - p)
    found, other = kept(0, p), kept(1, p)
    assert far(float((found == other).double().mean()), alike, found.numel()) < 5
    for axis in range(3):
        for shift in (1, 2, 4, 8, 16):
            agree = (found == found.roll(shift, axis)).double().mean()
            # a pair is counted from both of its sides where axes are short
            assert far(float(agree), alike, found.numel() / 2) < 5


def test_no_two_places_know_of_each_other_however_far_apart():
    """The autocorrelation over all distances, by a Fourier transform: as small as chance makes it."""
    keys, total = 8, 0.0
    for seed in range(keys):
        found = (drawn(torch.empty(1 << 19), key_of(seed)) >= MANY // 10).double()
        spectrum = torch.fft.rfft(found - found.mean()).abs().square()
        line = torch.fft.irfft(spectrum)[1 : 1 << 18]
        total = total + (line / spectrum.mean()) ** 2 * found.numel()
    assert float((total / keys).max()) < 10  # 2⁻¹⁸ of a chi square of 8, over 8, lies above 6.6


def test_keys_that_differ_in_one_bit_draw_other_numbers():
    """Of the first number; the second is there for pairs whose first numbers are nearly the same."""
    key = key_of(3)
    for bit in (0, 1, 7, 15, 30):
        other = key.clone()
        other[0] ^= 1 << bit
        a, b = (drawn(torch.empty(SHAPE), one) >= MANY // 2 for one in (key, other))
        assert far(float((a == b).double().mean()), 0.5, a.numel()) < 5


def test_one_first_number_and_two_second_ones_are_far_from_the_same_draw():
    for seed in range(8):
        key, other = key_of(seed), key_of(seed + 100)
        other[0] = key[0]
        a, b = (drawn(torch.empty(SHAPE), one) >= MANY // 10 for one in (key, other))
        assert abs(float((a == b).double().mean()) - 0.82) < 0.03  # 1 if they were the same


def test_what_is_kept_rises_and_the_gradient_is_that_of_the_same_places():
    module: Any = nn.Dropout(0.25)
    hashed = HashedDropout(module)
    module.key = key_of(5)
    x = torch.randn(8, 16, 32, requires_grad=True)
    y = hashed.forward(x)
    (grad,) = torch.autograd.grad(y.sum(), x)
    assert torch.equal(grad != 0, y != 0)
    torch.testing.assert_close(y[y != 0], x[y != 0] / 0.75)
    torch.testing.assert_close(grad[y != 0], torch.full_like(grad[y != 0], 1 / 0.75))


def test_a_share_that_is_changed_counts_at_once():
    module: Any = nn.Dropout(0.1)
    hashed = HashedDropout(module)
    module.key = key_of(5)
    for p in (0.1, 0.5, 0.0, 1.0):
        module.p = p
        share = float((hashed.forward(torch.ones(64, 1024)) == 0).double().mean())
        assert abs(share - p) < 0.01


def loss_of(model, seed):
    batch = inputs_of(8)
    batch["task"] = torch.arange(8) % len(model.tasks)
    torch.manual_seed(seed)
    return model.loss(model(**batch), labels(model, batch["task"]))


@pytest.mark.parametrize("family", ["bert", "modernbert"])
def test_blocks_draw_by_seed_and_rest_when_they_do_not_train(family):
    model = scramble(build(family, "lora"))
    for module in model.encoder.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.2
    plain = loss_of(model.train(), 0)
    resting = loss_of(model.eval(), 0)
    blocks = blocks_of(model.encoder)
    fused = FusedDropout(model, blocks)
    assert fused in model.preparing
    assert torch.equal(loss_of(model.eval(), 0), resting)
    model.train()
    first = loss_of(model, 1)
    assert torch.equal(loss_of(model, 1), first)
    assert not torch.equal(loss_of(model, 2), first)
    assert not torch.equal(first, resting)
    assert not any("key" in module.__dict__ for module in fused._modules)  # nothing is left of a pass
    fused.undo()
    assert fused not in model.preparing
    assert torch.equal(loss_of(model, 0), plain)


def test_each_dropout_of_a_pass_has_its_own_key():
    model = scramble(build("bert", "full")).train()
    fused = FusedDropout(model, blocks_of(model.encoder))
    seen = []
    real = HashedDropout.forward

    def forward(self, x):
        seen.append(tuple(self._module[0].key.tolist()))
        return real(self, x)

    for module in fused._modules:
        hashed = module.__dict__["forward"].__self__
        module.__dict__["forward"] = forward.__get__(hashed)
    loss_of(model, 0)
    assert len(seen) == len(set(seen)) >= 4


def test_a_block_that_runs_twice_drops_other_elements_each_time():
    """ALBERT's blocks have one dropout for all of their runs; so does a LoRA at their maps."""
    model = scramble(build("albert", {"use": "lora", "dropout": 0.5}, layers=1)).train()
    block = model.encoder.encoder.albert_layer_groups[0].albert_layers[0]
    block.attention.output_dropout.p = 0.5
    fused = FusedDropout(model, blocks_of(model.encoder))
    zeros = []
    block.attention.output_dropout.register_forward_hook(lambda m, x, out: zeros.append(out == 0))
    loss_of(model, 0)
    assert len(zeros) == 2
    assert not torch.equal(*zeros)
    assert not any(KEYS in adapter.__dict__ for _, adapter in model.placements)
    fused.undo()


@pytest.mark.slow  # tests/training/engines/test_inductor.py compares the dropout of a whole run
def test_compiled_it_draws_the_same(monkeypatch):
    """Blocks, heads, adapters: a compiler must not change what is drawn, in whatever order it runs them."""
    compile_quickly(monkeypatch)
    tasks = (TASKS[0], TASKS[3])  # one shape of heads: each is compiled, which takes seconds
    method = {"use": "lora", "dropout": 0.2}
    model = scramble(build("bert", method, tasks, layers=1, head_layers=2, head_hidden=5)).train()
    compiled = Compiled(model)
    fused = FusedDropout(model, blocks_of(model.encoder))
    assert fused._modules
    assert fused._heads
    assert fused._adapters
    with compiled.uncompiled():
        expected = loss_of(model, 3)
        expected.backward()
        assert not torch.equal(loss_of(model, 4), expected)
    grads = {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}
    model.zero_grad(set_to_none=True)
    found = loss_of(model, 3)
    found.backward()
    compiled.undo()
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
    for name, p in model.named_parameters():
        if name in grads:
            torch.testing.assert_close(p.grad, grads[name], rtol=1e-3, atol=1e-5)


def test_heads_draw_by_seed_and_lose_their_keys_with_the_garment():
    model = scramble(build("bert", "frozen")).train()
    undropped = [m for m in model.encoder.modules() if isinstance(m, nn.Dropout)]
    for module in undropped:
        module.p = 0.0
    plain = loss_of(model, 1)
    fused = FusedDropout(model, [])
    assert torch.equal(loss_of(model, 1), loss_of(model, 1))
    assert not torch.equal(loss_of(model, 1), loss_of(model, 2))
    fused.undo()
    assert not any(KEYS in head.__dict__ for head in model.heads.values())
    assert torch.equal(loss_of(model, 1), plain)
