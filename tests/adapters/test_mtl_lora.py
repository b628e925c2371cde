"""MTL-LoRA against its equation in plain torch, its counts, and why its weights start apart."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import weft
from tests.support.more import examples
from tests.support.tiny import TASKS, batch, build, labels, no_dropout
from weft.adapters.mtl_lora import MtlLoraAdapter, identity
from weft.core.route import Route
from weft.core.stacked import Slots
from weft.encoder.sites import Site

NAMES = ("x", "y", "z")


def adapter_of(width, out, rank, maps, temperature, scale, seed):
    site = Site("query", 0, width, out, "")
    slots = Slots.one(NAMES), Slots.per_task(NAMES)
    adapter = MtlLoraAdapter(site, *slots, rank, maps, temperature, scale, 0.0, seed).double()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in adapter.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=generator, dtype=torch.double))
    return adapter


def plain(adapter, x, task):
    """Σ_i softmax(w_t/τ)_i·B_i·Λ_t·A·x, row by row."""
    rows = []
    for row, t in zip(x, task.tolist(), strict=True):
        shares = torch.softmax(adapter.w[t].float() / adapter.temperature, 0)
        low = adapter.L[t] @ adapter.A[0] @ row.T  # [r, L]
        rows.append(sum(p * (b @ low) for p, b in zip(shares, adapter.B[0], strict=True)).T)
    return adapter.scale * torch.stack(rows)


@settings(max_examples=examples(25), deadline=None)
@given(
    width=st.integers(1, 7),
    out=st.integers(1, 7),
    rank=st.integers(1, 4),
    maps=st.integers(1, 4),
    temperature=st.floats(0.2, 3),
    seed=st.integers(0, 99),
)
def test_its_equation_and_gradients(width, out, rank, maps, temperature, seed):
    adapter = adapter_of(width, out, rank, maps, temperature, 1.5, seed)
    x = torch.randn(5, 3, width, dtype=torch.double, generator=torch.Generator().manual_seed(seed))
    task = torch.tensor([2, 0, 1, 1, 2])
    found, expected = adapter(x, Route(task)), plain(adapter, x, task)
    torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-6)
    names = dict(adapter.named_parameters())
    ours = torch.autograd.grad(found.square().sum(), names.values())
    theirs = torch.autograd.grad(expected.square().sum(), names.values())
    # the softmax is in float32, and its gradient is a difference of terms as large as the loss over τ
    near = 1e-6 * (1 + expected.square().sum().item() / temperature)
    for name, one, other in zip(names, ours, theirs, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=near, msg=lambda m, n=name: f"{n}: {m}")


@settings(max_examples=examples(10), deadline=None)
@given(rank=st.integers(1, 4), maps=st.integers(1, 3), seed=st.integers(0, 99))
def test_updates_of_tasks(rank, maps, seed):
    adapter = adapter_of(5, 6, rank, maps, 0.7, 2.0, seed)
    eye = torch.eye(5, dtype=torch.double)[None]
    deltas = []
    for t in range(3):
        whole = plain(adapter, eye, torch.tensor([t]))[0].T
        torch.testing.assert_close(adapter.weight_delta(t)[0], whole, rtol=1e-6, atol=1e-6)
        up, down = adapter.low_rank_delta(t)
        assert up.shape == (6, rank)
        torch.testing.assert_close(up @ down, whole, rtol=1e-6, atol=1e-6)
        deltas.append(whole.flatten())
    products, biases = adapter.inner_products()
    assert biases is None
    stacked = torch.stack(deltas)
    torch.testing.assert_close(products, stacked @ stacked.T, rtol=1e-5, atol=1e-5)


def test_parameters_on_bert_base():
    model = weft.Model("random:bert-base", TASKS, "mtl_lora", device="meta")
    counted = model.ledger()
    assert set(counted["per_task"].values()) == {24 * (8 * 8 + 3)}
    assert counted["shared"] == 24 * (8 * 768 + 3 * 768 * 8)


def test_a_task_starts_with_the_identity_and_weights_of_its_own():
    model = build("bert", {"use": "mtl_lora", "maps": 4})
    _, adapter = model.placements[0]
    assert torch.equal(adapter.L, torch.eye(8).expand(4, 8, 8))
    assert adapter.w.unique().numel() == adapter.w.numel()
    assert adapter.w.abs().max() <= 0.5  # 1/√4


@pytest.mark.parametrize("equal", [False, True])
def test_maps_part_only_if_the_weights_start_apart(equal):
    """From equal weights every B_i gets the same gradient, and they stay one map."""
    model = no_dropout(build("bert", {"use": "mtl_lora", "rank": 2, "temperature": 1.0}, head_dropout=0.0))
    if equal:
        with torch.no_grad():
            for _, adapter in model.placements:
                adapter.w.zero_()
    optimizer = torch.optim.SGD([p for p in model.adapters.parameters() if p.requires_grad], lr=0.1)
    inputs = batch(model)
    for _ in range(3):
        optimizer.zero_grad()
        model.loss(model.run(**inputs), labels(model, inputs["task"])).backward()
        optimizer.step()
    for _, adapter in model.placements:
        first, second, _ = adapter.B[0]
        assert torch.allclose(first, second, rtol=1e-3, atol=1e-9) is equal


def test_initial_values_do_not_depend_on_the_default_device():
    value = torch.empty(3, 3)
    with torch.device("meta"):  # stands for a GPU: a device that is not the tensor's
        identity(value, torch.Generator("cpu"))
    assert torch.equal(value, torch.eye(3))
