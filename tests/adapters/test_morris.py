"""The tensor and the bias matrix of MORRIS against numbers derived from its equations."""

from __future__ import annotations

import pytest
import torch
from safetensors.torch import load_file

from tests.support.golden import golden
from tests.support.tiny import FAMILIES, TASKS, batch, build, scramble
from weft.adapters import CpAdapter, LowRankBiasAdapter, TuckerAdapter
from weft.adapters.gate import OPEN, SHUT
from weft.core.gate_settings import L0
from weft.core.route import Route
from weft.core.stacked import Slots
from weft.encoder.sites import Site

NAMES = ["x", "y", "z"]


@pytest.fixture(scope="module")
def numbers():
    return load_file(golden("derived") / "morris.safetensors")


def cp(numbers, gated=False) -> CpAdapter:
    out_width, rank = numbers["A"].shape
    site = Site("query", 0, numbers["C"].shape[0], out_width, "")
    slots = Slots.one(NAMES), Slots.per_task(NAMES)
    adapter = CpAdapter(site, *slots, rank, seed=0, l0=L0() if gated else None).double()
    with torch.no_grad():
        for name in "ABC":
            getattr(adapter, name).copy_(numbers[name])
        if gated:
            adapter.gate.alpha.copy_(alpha_of(numbers["z"]))
    return adapter


def alpha_of(z):
    """α for which σ(α)·3 − 1.5, clamped, is z."""
    between = torch.logit((z + 1.5) / 3)
    return torch.where(z == 0, SHUT, torch.where(z == 1, OPEN, between))


def low_rank_bias(numbers, d="D", e="E", gated=False) -> LowRankBiasAdapter:
    out_width, rank = numbers[d].shape
    site = Site("ffn_in", 0, 6, out_width, "")
    slots = Slots.one(NAMES), Slots.per_task(NAMES)
    adapter = LowRankBiasAdapter(site, *slots, rank, seed=0, l0=L0() if gated else None).double()
    with torch.no_grad():
        adapter.D.copy_(numbers[d])
        adapter.E.copy_(numbers[e].T)
        if gated:
            adapter.gate.alpha.copy_(alpha_of(numbers["zb"]))
    return adapter


def test_slices_and_outputs(numbers):
    adapter, bias = cp(numbers), low_rank_bias(numbers)
    x = numbers["X"].expand(3, -1, -1)
    for task in (torch.tensor([0, 1, 2]), torch.tensor([2, 0, 1])):
        route = Route(task)
        base = x @ numbers["W"].T + numbers["b"]
        out = base + adapter(x, route) + bias(x, route)
        torch.testing.assert_close(out, numbers["out"][task], atol=1e-12, rtol=1e-10)
    for task in range(3):
        found, _ = adapter.weight_delta(task)
        torch.testing.assert_close(found, numbers["Q"][:, task], atol=1e-12, rtol=1e-10)
        up, down = adapter.low_rank_delta(task)
        torch.testing.assert_close(up @ down, numbers["Q"][:, task], atol=1e-12, rtol=1e-10)


def test_a_wider_bias(numbers):
    bias = low_rank_bias(numbers, "D_ff", "E_ff")
    found = torch.stack([bias.weight_delta(task)[1] for task in range(3)], dim=1)
    torch.testing.assert_close(found, numbers["bias_delta_ff"], atol=1e-12, rtol=1e-10)


def test_masked_slices(numbers):
    assert set(numbers["z"].tolist()) == {0.0, 0.5, 1.0}  # shut, in between, open
    adapter = cp(numbers, gated=True)
    for task in range(3):
        torch.testing.assert_close(
            adapter.weight_delta(task)[0], numbers["Q_masked"][:, task], atol=1e-12, rtol=1e-10
        )
        up, down = adapter.low_rank_delta(task)
        assert up.shape[1] == down.shape[0] == int((numbers["z"] > 0).sum())
        torch.testing.assert_close(up @ down, numbers["Q_masked"][:, task], atol=1e-12, rtol=1e-10)
    x = numbers["X"].expand(3, -1, -1)
    term = adapter(x, Route(torch.tensor([0, 1, 2])))
    expected = torch.einsum("rli,ori->rlo", x, numbers["Q_masked"])
    torch.testing.assert_close(term, expected, atol=1e-12, rtol=1e-10)


def test_tucker_with_a_diagonal_core_is_cp(numbers):
    expected = cp(numbers)
    rank = expected.rank
    adapter = TuckerAdapter(
        expected.site, Slots.one(NAMES), Slots.per_task(NAMES), rank, rank, seed=0
    ).double()
    with torch.no_grad():
        for name in "ABC":
            getattr(adapter, name).copy_(numbers[name])
        adapter.G.zero_()
        for j in range(rank):
            adapter.G[0, j, j, j] = 1.0
    for task in range(3):
        torch.testing.assert_close(
            adapter.weight_delta(task)[0], numbers["Q"][:, task], atol=1e-12, rtol=1e-10
        )


def test_masked_biases(numbers):
    bias = low_rank_bias(numbers, gated=True)
    for task in range(3):
        expected = numbers["D"] @ (numbers["E"][:, task] * numbers["zb"])
        torch.testing.assert_close(bias.weight_delta(task)[1], expected, atol=1e-12, rtol=1e-10)
        term = bias(numbers["X"][None], Route(torch.tensor([task])))
        torch.testing.assert_close(term[0, 0], expected, atol=1e-12, rtol=1e-10)


@pytest.mark.parametrize("family", FAMILIES)
def test_lora_bitfit_mtl_is_morris_where_b_and_e_are_one(family):
    """LoRA's A is Cᵀ and its B is A; the vector at a bias is the sum of D's columns."""
    settings = {"rank": 5, "biases": "all"}
    morris = scramble(build(family, {"use": "morris", **settings}))
    shared = scramble(build(family, {"use": "lora_bitfit_mtl", **settings}))
    pairs = zip(morris.placements, shared.placements, strict=True)
    with torch.no_grad():
        for (site, tensor), (place, one) in pairs:
            assert site == place
            if isinstance(tensor, CpAdapter):
                tensor.B.fill_(1.0)
                one.A.copy_(tensor.C.transpose(1, 2))
                one.B.copy_(tensor.A)
            else:
                tensor.E.fill_(1.0)
                one.v.copy_(tensor.D.sum(-1))
        shared.heads.load_state_dict(morris.heads.state_dict())
        inputs = batch(morris)
        for found, expected in zip(shared.run(**inputs).logits, morris.run(**inputs).logits, strict=True):
            torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("core", ["cp", "tucker"])
def test_what_tasks_share_and_what_is_their_own(core):
    model = build("bert", {"use": "morris", "rank": 5, "bias_rank": 3, "core": core, "task_rank": 2})
    counted = model.ledger()
    d, inner, layers = 32, 40, 2
    biases = 3 * (5 * d + inner)
    weights = 2 * 2 * d * 5 + (0 if core == "cp" else 2 * 2 * 5 * 5)
    assert counted["shared"] == layers * (weights + biases)
    own = layers * (2 * (5 if core == "cp" else 2) + 6 * 3)
    assert counted["per_task"] == {task.name: own for task in TASKS}
