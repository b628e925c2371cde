import json
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from types import SimpleNamespace

import pytest
import torch

from tests.support.task_gradients import (
    METHODS,
    NAMES,
    assert_same,
    gradients_of,
    made,
    plain,
    ready,
    run,
    some,
)
from tests.support.tiny import batch, build, labels
from weft.errors import RunFailed, WeftError
from weft.model.losses import RULES, example_weights
from weft.model.ownership import owned
from weft.training.conflict.conflict import Conflict, Merged
from weft.training.conflict.gradients import TaskGradients


@pytest.mark.parametrize("method", METHODS)
def test_mean_is_the_plain_backward(method):
    model = ready(method)
    inputs = batch(model, rows=10)
    merging = made(model, "mean")
    assert merging.shares == (method != "lora")
    for rule in RULES:
        weight = example_weights(inputs["task"], rule)
        expected = plain(model, inputs, weight)
        for parts in (1, 2):
            run(model, merging, inputs, weight, parts)
            assert_same(gradients_of(model), expected)
    # a step with some of the tasks, then one with one of them, in the same memory
    for tasks in ([0, 2, 3], [1, 2], [1]):
        places = torch.isin(inputs["task"], torch.tensor(tasks)).nonzero().flatten()
        few = some(inputs, places)
        weight = example_weights(few["task"])
        expected = plain(model, few, weight)
        run(model, merging, few, weight)
        assert_same(gradients_of(model), expected)


class ByKind(Conflict):
    """Weights that tell the kinds of parameters apart."""

    name = "by_kind"

    def merge(self, gramian, tasks, seed):
        count = len(tasks)
        rows = torch.arange(1, count + 1, dtype=torch.float64)
        return Merged(rows, 10 * rows, 100 * rows)


@pytest.mark.parametrize("method", ["full", "lora-groups", "morris"])
def test_weights_go_to_the_parameters_they_are_for(method):
    model = ready(method)
    inputs = batch(model, rows=10)
    weight = example_weights(inputs["task"])
    alone = []
    for t in range(4):
        alone.append(plain(model, inputs, 4 * weight * (inputs["task"] == t)))
    merging = TaskGradients(model, ByKind(), NAMES, range(4))
    run(model, merging, inputs, weight)
    found = gradients_of(model)
    members = {"group:first": [0, 2], "group:second": [1]}
    seen = set()
    for item in owned(model):
        if not item.trains:
            continue
        each = [g.get(item.name, torch.zeros_like(item.parameter)) for g in alone]
        if item.owner.startswith("task:"):
            t = NAMES.index(item.owner.removeprefix("task:"))
            expected = 100 * (t + 1) * each[t]
        elif item.owner in members:
            expected = sum(10 * (t + 1) * each[t] for t in members[item.owner])
        else:
            expected = sum((t + 1) * each[t] for t in range(4))
        value = found.get(item.name, torch.zeros_like(item.parameter))
        if item.slot is not None:
            expected, value = expected[item.slot], value[item.slot]
        assert torch.allclose(value, expected, rtol=1e-4, atol=1e-4), item
        seen.add(item.owner.split(":")[0])
    expected_owners = {"full": {"encoder", "task"}, "morris": {"shared", "task"}}
    assert seen == expected_owners.get(method, {"group", "task"})


def jacobian(model, inputs, weight):
    """P times each task's gradient of what is shared, and of all, flattened, [P, n] each."""
    shared, whole = [], []
    owners = {i.name: i.owner for i in owned(model) if i.slot is None or not i.owner.startswith("task:")}
    for t in range(4):
        found = plain(model, inputs, 4 * weight * (inputs["task"] == t))
        shared.append(torch.cat([g.flatten() for n, g in found.items() if n in owners]))
        whole.append(torch.cat([g.flatten() for g in found.values()]))
    return torch.stack(shared).double(), torch.stack(whole).double()


@pytest.mark.parametrize("method", ["full", "lora-all", "morris"])
def test_the_gramian_is_of_the_gradients(method):
    model = ready(method)
    inputs = batch(model, rows=12)
    weight = example_weights(inputs["task"])
    shared, whole = jacobian(model, inputs, weight)
    seen = {}

    class Seen(ByKind):
        name = "seen"
        all_of_it: bool = False

        @property
        def whole(self):
            return self.all_of_it

        def merge(self, gramian, tasks, seed):
            seen[self.all_of_it] = gramian
            return super().merge(gramian, tasks, seed)

    for all_of_it, rows in ((False, shared), (True, whole)):
        merging = TaskGradients(model, Seen(all_of_it=all_of_it), NAMES, range(4))
        run(model, merging, inputs, weight)
        model.zero_grad()
        expected = rows @ rows.T
        assert torch.allclose(seen[all_of_it], expected, rtol=1e-4, atol=1e-5 * float(expected.max()))
    assert not torch.equal(seen[True].diagonal(), seen[False].diagonal())


@pytest.mark.parametrize("conflict", ["upgrad", "dual_proj", "mgda", "pcgrad"])
def test_promise_holds_for_a_models_gradients(conflict):
    """No task's loss rises along the merged gradient of what is shared."""
    model = ready("lora-all")
    inputs = batch(model, rows=12, seed=5)
    tasks = 2 if conflict == "pcgrad" else 4
    inputs["task"] = inputs["task"] % tasks
    weight = example_weights(inputs["task"])
    names = [i.name for i in owned(model) if i.owner == "shared"]
    rows = []
    for t in range(tasks):
        found = plain(model, inputs, tasks * weight * (inputs["task"] == t))
        rows.append(torch.cat([found[name].flatten() for name in names]).double())
    rows = torch.stack(rows)
    assert float((rows @ rows.T).min()) < 0, "no conflict: the test would say nothing"
    run(model, made(model, conflict), inputs, weight)
    merged = gradients_of(model)
    step = torch.cat([merged[name].flatten() for name in names]).double()
    products = rows @ step / (rows.norm(dim=1) * step.norm())
    assert float(products.min()) > -1e-4


def test_what_a_task_owns_keeps_its_own_gradient():
    model = ready("lora-all")
    inputs = batch(model, rows=12, seed=5)
    weight = example_weights(inputs["task"])
    expected = plain(model, inputs, weight)
    run(model, made(model, "pcgrad"), inputs, weight)
    found = gradients_of(model)
    heads = {name: value for name, value in expected.items() if name.startswith("heads")}
    assert_same(found, heads)
    rest = [name for name in expected if name not in heads]
    assert any(not torch.allclose(found[name], expected[name], rtol=1e-3) for name in rest)


def test_memory_is_of_what_is_shared_and_used_again():
    model = ready("lora-all")
    inputs = batch(model, rows=12)
    merging = made(model, "pcgrad")
    weight = example_weights(inputs["task"])
    addresses = []
    for _ in range(3):
        run(model, merging, inputs, weight)
        (share,) = merging.shared
        assert not share.held
        assert len(share.free) == 4
        addresses.append({t.data_ptr() for held in share.free for t in held})
    assert addresses[0] == addresses[1] == addresses[2]
    shared = sum(i.numel for i in owned(model) if i.owner == "shared")
    assert [sum(t.numel() for t in held) for held in share.free] == [shared] * 4


class Meeting:
    """Two processes as threads: what both bring to a sum must have the same shapes."""

    def __init__(self):
        self.barrier, self.brought, self.largest = Barrier(2, timeout=30), [None, None], 0

    def process(self, rank):
        def sum_(tensors):
            self.brought[rank] = [tensor.clone() for tensor in tensors]
            self.barrier.wait()
            for tensor, one, other in zip(tensors, *self.brought, strict=True):
                tensor.copy_(one + other)
            self.largest = max(self.largest, sum(t.numel() for t in tensors))
            self.barrier.wait()

        return SimpleNamespace(rank=rank, world=2, sum_=sum_)


@pytest.mark.parametrize("method", ["full", "lora-groups"])
def test_two_processes_are_one(method):
    """One of them has no example of two of the tasks, and neither has one of the last."""
    models = [ready(method) for _ in range(2)]
    inputs = batch(models[0], rows=12)
    inputs = some(inputs, inputs["task"] < 3)
    weight = example_weights(inputs["task"])
    expected = plain(models[0], inputs, weight)
    targets = labels(models[0], inputs["task"])
    meeting = Meeting()

    def one(rank):
        model, merging = models[rank], made(models[rank], "mean", meeting.process(rank))
        for t in range(3):
            mine = (inputs["task"] == t) & ((torch.arange(len(weight)) % 2 == rank) | (t > 0))
            mine &= torch.tensor(rank == 0 or t == 0)
            if mine.any():
                output = model.run(**some(inputs, mine))
                (3 * model.loss(output, some(targets, mine), weight[mine])).backward()
                merging.after_backward(t)
        merged = merging.finish(0)
        return merged.all.tolist(), merging.telemetry.window(), gradients_of(model)

    with ThreadPoolExecutor(2) as threads:
        found = list(threads.map(one, range(2)))
    for weights, _, gradients in found:
        assert weights == [1 / 3] * 3
        assert_same(gradients, expected)
    assert found[0][1] == found[1][1]
    assert meeting.largest <= sum(i.numel for i in owned(models[0]) if i.trains)


def test_telemetry_is_of_pairs_that_share():
    model = ready("lora-groups")
    inputs = batch(model, rows=12)
    merging = made(model, "mean")
    run(model, merging, inputs, example_weights(inputs["task"]))
    told = merging.telemetry.window()
    assert list(told["cosine"]) == ["a|c"]
    assert told["conflicting"] == float(told["cosine"]["a|c"] < 0)


def test_state_survives_json():
    model = ready("lora-all")
    inputs = batch(model, rows=12)
    weight = example_weights(inputs["task"])
    one = made(model, "grad_vac")
    run(model, one, inputs, weight, seed=1)
    model.zero_grad()
    other = made(model, "grad_vac")
    other.load(json.loads(json.dumps(one.state())))
    found = []
    for merging in (one, other):
        run(model, merging, inputs, weight, seed=2)
        found.append(gradients_of(model))
    assert all(torch.equal(value, found[1][name]) for name, value in found[0].items())
    assert one.telemetry.window() == other.telemetry.window()


def test_bf16_and_nothing_to_do():
    model = ready("lora-all")
    inputs = batch(model, rows=12)
    merging = made(model, "upgrad")
    assert merging.finish(0) is None
    with torch.autocast("cpu", torch.bfloat16):
        run(model, merging, inputs, example_weights(inputs["task"]))
    assert all(torch.isfinite(g).all() and g.dtype == torch.float32 for g in gradients_of(model).values())


def test_refusals():
    with pytest.raises(WeftError, match=r"with method 'separate' every weight belongs to one task.*leave"):
        made(build("bert", "separate"), "pcgrad")
    with pytest.raises(WeftError, match="order names the task 'z'"):
        made(ready("full"), {"use": "pcgrad", "order": ["z"]})
    model = ready("lora-all")
    merging = made(model, "mean")
    for item in owned(model):
        if item.owner == "shared":
            item.parameter.grad = torch.full_like(item.parameter, torch.nan)
    merging.after_backward(2)
    with pytest.raises(RunFailed, match="the gradient of task c is not finite"):
        merging.finish(0)
