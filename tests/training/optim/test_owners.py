from __future__ import annotations

import pytest
import torch

from tests.support.tiny import TASKS, batch, build, labels, no_dropout, scramble
from weft.errors import WeftError
from weft.model.ownership import owned
from weft.training.optim.clip import norms
from weft.training.optim.owners import OwnerOptimizers, owners_of_tasks, rate_of
from weft.training.run.phases import Phases
from weft.training.settings import LearningRates, Training


def test_equal_to_separate_parameters_without_gradient():
    """Views of a stack under their own AdamW move as parameters of their own would, bit by bit."""
    model = no_dropout(scramble(build("bert", "lora", head_dropout=0.0)))
    optimizers = OwnerOptimizers(model, lr=1e-2, weight_decay=0.1)
    items = [i for i in owned(model) if i.trains]
    apart = [torch.nn.Parameter(i.data.clone()) for i in items]
    groups = [
        {"params": [p], "weight_decay": 0.1 if i.role == "weight" else 0.0}
        for i, p in zip(items, apart, strict=True)
    ]
    reference = torch.optim.AdamW(groups, lr=1e-2, fused=True)
    inputs = batch(model)
    for step in range(6):
        present = [t for t in range(4) if (step + t) % 3]
        rows = torch.isin(inputs["task"], torch.tensor(present))
        some = {k: v[rows] for k, v in inputs.items()}
        optimizers.zero_grad()
        model.loss(model.run(**some), labels(model, some["task"])).backward()
        names = {f"task:{TASKS[t].name}" for t in present}
        for item, parameter in zip(items, apart, strict=True):
            gradient = item.parameter.grad[item.slot]
            parameter.grad = gradient.clone() if item.owner in names else None
        optimizers.step(present)
        reference.step()
        for item, parameter in zip(items, apart, strict=True):
            assert torch.equal(item.data, parameter.data), (step, item.name)


def test_gradients_set_to_none_elsewhere_are_followed():
    twins = [no_dropout(scramble(build("bert", "lora", head_dropout=0.0))) for _ in range(2)]
    for model, zero in zip(twins, ("ours", "torch"), strict=True):
        optimizers = OwnerOptimizers(model, lr=1e-2)
        inputs = batch(model)
        for _ in range(3):
            optimizers.zero_grad() if zero == "ours" else model.zero_grad()
            model.loss(model.run(**inputs), labels(model, inputs["task"])).backward()
            optimizers.step([0, 1, 2, 3])
    for (name, one), (_, other) in zip(*(m.named_parameters() for m in twins), strict=True):
        assert torch.equal(one, other), name


def test_parameters_that_moved_are_refused():
    model = build("bert", "lora")
    optimizers = OwnerOptimizers(model)
    model.double()
    with pytest.raises(WeftError, match="has moved in memory"):
        optimizers.step([0])


def test_owners_of_tasks():
    model = build("bert", {"use": "lora", "share": {"g": ["a", "c"]}})
    found = owners_of_tasks(model)
    assert found[0] == {"encoder", "shared", "task:a", "group:g"}
    assert found[1] == {"encoder", "shared", "task:b"}


def test_decay_goes_by_role():
    model = build("bert", ["full", "bitfit"])
    by_role = {}
    for item in owned(model):
        by_role.setdefault(item.role, set()).add(item.name.rsplit(".", 1)[-1])
    assert by_role == {"weight": {"weight"}, "norm": {"weight"}, "bias": {"bias", "v"}}
    # LayerNorm weights, biases and the bias vectors (two-dimensional in their stack) have no decay
    optimizers = OwnerOptimizers(model, weight_decay=0.3)
    for optimizer in optimizers.optimizers.values():
        assert {g["weight_decay"] for g in optimizer.param_groups} <= {0.3, 0.0}
    decayed = sum(
        p.numel()
        for o in optimizers.optimizers.values()
        for g in o.param_groups
        if g["weight_decay"]
        for p in g["params"]
    )
    assert decayed == sum(i.numel for i in owned(model) if i.role == "weight" and i.trains)


def random_gradients(model, seed=3):
    generator = torch.Generator().manual_seed(seed)
    for parameter in model.parameters():
        if parameter.grad is not None:
            parameter.grad.copy_(torch.randn(parameter.shape, generator=generator))


RATES = {"encoder": 0.01, "shared": 0.02, "task": 0.04, "gates": 0.08}
GATED = {"use": "morris", "rank": 6, "bias_rank": 2, "l0": True}
SEVERAL = {
    "full": {"encoder", "task"},
    "separate": {"encoder", "task"},
    "ca_mtl": {"encoder", "shared", "task"},
    "gated": {"shared", "task", "gates"},
    "groups": {"shared", "task"},
}


def of(name, **settings):
    methods = {"gated": GATED, "groups": {"use": "lora", "share": {"g": ["a", "c"]}}}
    return scramble(build("bert", methods.get(name, name), **settings))


def expected_role(item):
    if item.role == "gate":
        return "gates"
    if item.part == "encoder":
        return "encoder"  # under `separate` too, where tasks own encoders
    return "task" if item.owner.startswith("task:") else "shared"


@pytest.mark.parametrize("name", SEVERAL)
@pytest.mark.parametrize("given", [(), ("task",), ("encoder", "shared", "gates")])
def test_each_role_moves_by_its_own_rate(name, given):
    """The first step of AdamW moves every number by the learning rate."""
    model = of(name)
    lr_of = {role: RATES[role] for role in given}
    optimizers = OwnerOptimizers(model, lr=0.005, weight_decay=0.0, gate_lr=0.3, lr_of=lr_of)
    random_gradients(model)
    items = [i for i in owned(model) if i.trains]
    assert {rate_of(i) for i in items} == {expected_role(i) for i in items} == SEVERAL[name]
    before = [i.data.clone() for i in items]
    optimizers.set_factor(0.5)
    optimizers.step(range(4))
    for item, old in zip(items, before, strict=True):
        role = rate_of(item)
        rate = lr_of.get(role, 0.3 if role == "gates" else 0.005)
        moved = (item.data - old).abs()
        expected = torch.full_like(moved, rate if role == "gates" else rate / 2)
        torch.testing.assert_close(moved, expected, rtol=1e-2, atol=1e-5)


def test_a_peak_of_a_phase_is_for_those_without_a_rate_of_their_own():
    optimizers = OwnerOptimizers(of("ca_mtl"), lr=0.1, lr_of=LearningRates(task=0.4))

    def rates():
        groups = [g for o in optimizers.optimizers.values() for g in o.param_groups]
        return {(g["has_own_rate"], g["lr"]) for g in groups}

    assert rates() == {(False, 0.1), (True, 0.4)}
    optimizers.set_factor(0.5, 0.2)
    assert rates() == {(False, 0.1), (True, 0.2)}
    assert optimizers.lr == 0.1
    optimizers.set_factor(0.5)
    assert rates() == {(False, 0.05), (True, 0.2)}


@pytest.mark.parametrize("name", SEVERAL)
def test_a_task_s_rate_moves_all_that_belongs_to_it_and_nothing_else(name):
    """Also before the rate of a role; the first step of AdamW moves every number by the learning rate."""
    model = of(name)
    lr_of = {"task": 0.04, "tasks": {"b": 0.02, "d": 0.01}}
    optimizers = OwnerOptimizers(model, lr=0.005, weight_decay=0.0, gate_lr=0.3, lr_of=lr_of)
    random_gradients(model)
    items = [i for i in owned(model) if i.trains]
    before = [i.data.clone() for i in items]
    optimizers.set_factor(0.5)
    optimizers.step(range(4))
    seen = set()
    for item, old in zip(items, before, strict=True):
        role = rate_of(item)
        if role == "gates":
            expected = 0.3
        elif item.owner in ("task:b", "task:d"):
            expected = {"task:b": 0.02, "task:d": 0.01}[item.owner] / 2
            seen.add(item.owner)
        else:
            expected = (0.04 if role == "task" else 0.005) / 2
        moved = (item.data - old).abs()
        torch.testing.assert_close(moved, torch.full_like(moved, expected), rtol=1e-2, atol=1e-5)
    assert seen == {"task:b", "task:d"}


@pytest.mark.parametrize("optimizer", ["adamw", "bert_adam"])
def test_betas_and_eps_reach_every_optimizer(optimizer):
    model = of("groups")
    training = Training(lr=0.01, optimizer=optimizer, betas=[0.8, 0.99], eps=1e-5)
    optimizers = Phases(model, training).optimizers(0)
    groups = [g for o in optimizers.optimizers.values() for g in o.param_groups]
    assert {(g["betas"], g["eps"]) for g in groups} == {((0.8, 0.99), 1e-5)}
    default = Phases(model, Training(lr=0.01, optimizer=optimizer)).optimizers(0)
    groups = [g for o in default.optimizers.values() for g in o.param_groups]
    eps = 1e-6 if optimizer == "bert_adam" else 1e-8
    assert {(g["betas"], g["eps"]) for g in groups} == {((0.9, 0.999), eps)}


def test_unknown_names_are_told():
    model = build("bert", "lora")
    with pytest.raises(WeftError, match=r"no optimizer 'bertadam'.*bert_adam"):
        OwnerOptimizers(model, optimizer="bertadam")
    assert LearningRates(tasks={"a": "4e-4"}).tasks == {"a": 4e-4}  # as YAML reads 4e-4
    for wrong in ("x", 0, -1, True, None, "inf", "nan", [1]):
        with pytest.raises(WeftError, match="tasks: expected a number above 0 for 'a'; found"):
            LearningRates(tasks={"a": wrong})
    with pytest.raises(WeftError, match=r"taks: no such setting.*task"):
        OwnerOptimizers(model, lr_of={"taks": 0.1})


@pytest.mark.parametrize("name", ["full", "gated"])
def test_global_clipping_is_torch_s_own_over_all_but_the_gates(name):
    model, twin = of(name), of(name)
    optimizers = OwnerOptimizers(model, gate_lr=0.1)
    random_gradients(model)
    gates = {i.name for i in owned(model) if i.role == "gate"}
    for one, other in zip(model.parameters(), twin.parameters(), strict=True):
        other.grad = None if one.grad is None else one.grad.clone()
    clipped = [p for n, p in twin.named_parameters() if n not in gates and p.grad is not None]
    torch.nn.utils.clip_grad_norm_(clipped, 0.7, foreach=True)
    seen = []
    optimizers.clip(0.7, "global", norm_of=lambda tensors: seen.extend(tensors) or norms(tensors))
    # in torch's order: the sum of squares depends on it in its last bit
    assert [t.shape for t in seen] == [p.shape for p in clipped]
    for (name, one), other in zip(model.named_parameters(), twin.parameters(), strict=True):
        assert one.grad is other.grad is None or torch.equal(one.grad, other.grad), name


@pytest.mark.parametrize("name", SEVERAL)
def test_clipping_by_tensor_is_by_owner(name):
    """A task's gradient is clipped whatever others' are; gates, and what is left out, stay."""
    model = of(name)
    optimizers = OwnerOptimizers(model, gate_lr=0.1)
    random_gradients(model)
    items = [i for i in owned(model) if i.trains]
    left = next(i.parameter for i in items if i.role != "gate")
    for item in items:
        if item.owner == "task:b":
            (item.parameter.grad if item.slot is None else item.parameter.grad[item.slot]).zero_()
    before = {(i.name, i.slot): gradient(i).clone() for i in items}
    optimizers.clip(0.7, "tensor", leave_out=[left])
    for item in items:
        old = before[item.name, item.slot]
        scale = 1 if item.role == "gate" or item.parameter is left else min(1, 0.7 / float(old.norm() + 1e-6))
        torch.testing.assert_close(gradient(item), old * scale, rtol=1e-5, atol=0)
    assert all(not gradient(i).any() for i in items if i.owner == "task:b")


def gradient(item):
    return item.parameter.grad if item.slot is None else item.parameter.grad[item.slot]


@pytest.mark.parametrize("name", SEVERAL)
def test_parameters_are_counted_by_decay_then_in_the_model_s_order(name):
    """As files count them: neither rates nor processes change the number of a parameter."""
    plain = OwnerOptimizers(of(name), gate_lr=0.1)
    rated = OwnerOptimizers(of(name), lr_of=RATES)
    assert plain.optimizers.keys() == rated.optimizers.keys()
    for owner, optimizer in plain.optimizers.items():
        in_groups = [p for g in optimizer.param_groups for p in g["params"]]
        assert [id(p) for p in plain.parameters(owner)] == [id(p) for p in in_groups]
        assert [p.shape for p in rated.parameters(owner)] == [p.shape for p in in_groups]


@pytest.mark.parametrize("optimizer", ["adamw", "bert_adam"])
def test_owners_drift_from_their_first_example_on(optimizer):
    model = scramble(build("bert", "lora"))
    optimizers = OwnerOptimizers(model, lr=0.1, weight_decay=0.1, optimizer=optimizer)
    items = [i for i in owned(model) if i.trains]

    def moved(tasks, drifting=()):
        before = [i.data.clone() for i in items]
        optimizers.step(tasks, drifting)
        return {i.owner for i, b in zip(items, before, strict=True) if not torch.equal(i.data, b)}

    random_gradients(model)
    assert moved([0, 1], [0, 1, 2]) == {"task:a", "task:b"}
    optimizers.zero_grad()
    assert moved([0], [0, 1, 2]) == {"task:a", "task:b"}
    assert moved([0]) == {"task:a"}
