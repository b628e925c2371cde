"""Mixtures of low-rank updates: Polytropon and MHR beside PEFT, HydraLoRA beside its equation."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from peft import PolyConfig
from torch.nn import functional as F

import weft
from tests.support.peft_layers import NARROW, TASKS, WIDE, layer_of, map_of, rows_of, scrambled, site_of
from tests.support.tiny import build
from weft.adapters.mixture import HydraAdapter, PolyAdapter, combined, combined_one_by_one
from weft.core.stacked import Slots
from weft.errors import WeftError
from weft.kernels.joined import joined_linear

CLOSE = {"rtol": 1e-5, "atol": 1e-5}
ONE, EACH = Slots.one(TASKS), Slots.per_task(TASKS)
RANK, SKILLS, EXPERTS = 3, 5, 4


def poly(splits=1, scale=1 / RANK, noise=False):
    adapter = PolyAdapter(site_of(), ONE, EACH, RANK, SKILLS, splits, scale, noise, seed=0)
    scrambled(adapter)
    return adapter.eval()


def hydra(per_task=None, scale=2.0):
    adapter = HydraAdapter(site_of(), ONE, per_task, RANK, EXPERTS, scale, seed=0)
    scrambled(adapter)
    return adapter


@pytest.mark.parametrize("splits", [1, 2, 8])
def test_poly_and_mhr_equal_pefts(splits):
    """Outputs and the gradients of skills and logits, of a batch in which the tasks are mixed."""
    adapter, linear = poly(splits), map_of()
    x, weight, route = rows_of()
    ours = adapter.add_to(linear(x), x, route)
    (ours * weight).sum().backward()
    config = PolyConfig(r=RANK, n_tasks=len(TASKS), n_skills=SKILLS, n_splits=splits, target_modules=["map"])
    twin = layer_of(config, map_of())
    assert twin.get_nb_trainable_parameters()[0] == sum(p.numel() for p in adapter.parameters())
    layer = twin.base_model.model.map
    theirs_a, theirs_b = layer.poly_lora_A["default"], layer.poly_lora_B["default"]
    router = layer.poly_router["default"].module_logits
    slices = (splits, -1)
    with torch.no_grad():  # [K, r, i] → [q, K, i/q, r] and [K, o, r] → [q, K, r, o/q]
        theirs_a.copy_(adapter.A[0].unflatten(-1, slices).permute(2, 0, 3, 1))
        theirs_b.copy_(adapter.B[0].unflatten(1, slices).permute(1, 0, 3, 2))
        router.copy_(adapter.logits.flatten(1))
    found = layer(x, task_ids=route.task)
    torch.testing.assert_close(ours, found, **CLOSE)
    (found * weight).sum().backward()
    by_slice = adapter.A.grad[0].unflatten(-1, slices).permute(2, 0, 3, 1)
    torch.testing.assert_close(by_slice, theirs_a.grad, **CLOSE)
    by_slice = adapter.B.grad[0].unflatten(1, slices).permute(1, 0, 3, 2)
    torch.testing.assert_close(by_slice, theirs_b.grad, **CLOSE)
    torch.testing.assert_close(adapter.logits.grad.flatten(1), router.grad, **CLOSE)


@pytest.mark.parametrize("splits", [1, 4])
def test_a_tasks_update_is_of_low_rank_and_merges(splits):
    adapter, linear = poly(splits), map_of()
    x, _, route = rows_of()
    with torch.no_grad():
        expected = adapter.add_to(linear(x), x, route)
        products = adapter.inner_products()[0]
        deltas = []
        for number in range(len(TASKS)):
            up, down = adapter.low_rank_delta(number)
            assert down.shape == (RANK, WIDE)
            weight, bias = adapter.merge_into(number, linear.weight, linear.bias)
            torch.testing.assert_close(weight - linear.weight, up @ down, **CLOSE)
            rows = route.task == number
            torch.testing.assert_close(F.linear(x[rows], weight, bias), expected[rows], **CLOSE)
            deltas.append((up @ down).flatten())
    stacked = torch.stack(deltas)
    torch.testing.assert_close(products, stacked @ stacked.T, **CLOSE)


def test_poly_joins_its_map():
    adapter, linear = poly(2), map_of()
    x, _, route = rows_of()
    with torch.no_grad():
        expected = adapter.add_to(linear(x), x, route)
        found = joined_linear(x, linear.weight, linear.bias, [[adapter.components(route)]])
    torch.testing.assert_close(found, expected, **CLOSE)


@given(st.integers(1, 3), st.integers(1, 4), st.integers(1, 3), st.integers(1, 5), st.integers(0, 2**31 - 1))
def test_both_ways_to_combine_skills_agree(sites, tasks, splits, skills, seed):
    generator = torch.Generator().manual_seed(seed)
    p = torch.rand(sites, tasks, splits, skills, generator=generator)
    of_skills = torch.randn(sites, splits, skills, 2, 3, generator=generator)
    found = combined_one_by_one(p, of_skills)
    torch.testing.assert_close(found, combined(p, of_skills), rtol=1e-5, atol=1e-5)
    one = combined_one_by_one(p[:, :1], of_skills)
    assert torch.equal(found[:, :1], one), "a task's bits must not depend on the other tasks"


def test_a_mixture_is_positive_with_sum_one():
    adapter = poly()
    p = adapter.mixture(4 * torch.randn(7, 2, SKILLS, generator=torch.Generator().manual_seed(0)))
    assert (p > 0).all()
    torch.testing.assert_close(p.sum(-1), torch.ones(7, 2))


def test_noise_is_the_papers_and_of_training_alone():
    """σ(logits + logistic noise): its mean over many draws is the expectation of the relaxed variable."""
    adapter = poly(noise=True)
    logits = torch.tensor([[0.0, 1.0, -2.0]])
    assert torch.equal(adapter.mixture(logits), poly().mixture(logits))
    adapter.train()
    torch.manual_seed(0)
    drawn = torch.stack([adapter.mixture(logits)[0] for _ in range(4000)])
    torch.manual_seed(1)
    relaxed = torch.distributions.RelaxedBernoulli(torch.tensor(1.0), logits=logits[0]).sample((4000,))
    expected = relaxed / relaxed.sum(-1, keepdim=True)
    torch.testing.assert_close(drawn.mean(0), expected.mean(0), rtol=0, atol=0.02)
    torch.testing.assert_close(drawn.std(0), expected.std(0), rtol=0, atol=0.02)


def test_noise_is_drawn_once_for_all_rows_of_a_task():
    adapter = poly(noise=True).train()
    x, _, route = rows_of()
    x = x[:1].expand_as(x)
    torch.manual_seed(0)
    first, second = adapter(x, route), adapter(x, route)
    for number in range(len(TASKS)):
        rows = first[route.task == number]
        torch.testing.assert_close(rows, rows[:1].expand_as(rows))
    assert not torch.allclose(first, second)


def hydra_by_loops(adapter, linear, x, task):
    """y = W·x + b + s·Σ_i softmax(G·x + u_t)_i·B_i·A·x, token by token."""
    y = torch.empty(*x.shape[:2], NARROW)
    a, experts, gate = adapter.A[0], adapter.B[0], adapter.G[0]
    for r in range(x.size(0)):
        for n in range(x.size(1)):
            token = x[r, n]
            logits = gate @ token
            if adapter.by_task:
                logits = logits + adapter.u[task[r]]
            weights = logits.exp() / logits.exp().sum()
            update = sum(weights[i] * (experts[i] @ (a @ token)) for i in range(EXPERTS))
            y[r, n] = linear.weight @ token + linear.bias + adapter.scale * update
    return y


@pytest.mark.parametrize("slots", [None, EACH])
def test_hydra_is_its_equation(slots):
    """Outputs and all gradients, without and with the task's term in the gate."""
    adapter, linear = hydra(slots), map_of()
    x, weight, route = rows_of()
    ours = adapter.add_to(linear(x), x, route)
    names = [name for name, _ in adapter.named_parameters()]
    gradients = torch.autograd.grad((ours * weight).sum(), list(adapter.parameters()))
    expected = hydra_by_loops(adapter, linear, x, route.task)
    torch.testing.assert_close(ours, expected, rtol=1e-4, atol=1e-4)
    reference = torch.autograd.grad((expected * weight).sum(), list(adapter.parameters()))
    for name, found, by_loops in zip(names, gradients, reference, strict=True):
        torch.testing.assert_close(found, by_loops, rtol=1e-3, atol=1e-4, msg=lambda m, n=name: f"{n}: {m}")
    assert ("u" in names) is (slots is not None)


def test_hydra_says_why_it_cannot_be_merged():
    with pytest.raises(WeftError, match=r"the adapter at '0/query' cannot be merged: its mixture depends"):
        build("bert", "hydra").merge("a")


def test_counts_on_bert_base():
    """Shared: skills K·r·(i + o) per map, or r·i + N·o·r + N·i; of a task q·K logits per map."""

    def counted(method):
        return weft.Model("random:bert-base", [weft.Task(t, size=2) for t in TASKS], method, device="meta")

    found = counted({"use": "poly", "rank": 4, "skills": 6, "splits": 3}).ledger()
    assert found["shared"] == 24 * 6 * 4 * 2 * 768
    assert set(found["per_task"].values()) == {24 * 3 * 6}
    found = counted({"use": "hydra", "rank": 4, "experts": 5}).ledger()
    assert found["shared"] == 24 * (4 * 768 + 5 * 4 * 768 + 5 * 768)
    assert set(found["per_task"].values()) == {0}
    assert set(counted({"use": "hydra", "task_gate": True}).ledger()["per_task"].values()) == {24 * 3}


def test_splits_that_divide_no_map():
    with pytest.raises(WeftError, match=r"poly at '0/query': 3 splits .* from 32 to 32; expected a divisor"):
        build("bert", {"use": "poly", "splits": 3})
