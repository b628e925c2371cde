import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.support.conflicting import gradients, gramian, worst
from tests.support.golden import read_golden
from weft.errors import WeftError
from weft.training.conflict import build_conflict
from weft.training.conflict.pcgrad import PCGrad, PCGradTseng, project


def by_hand(rows, orders, include_self):
    """Yu et al.'s algorithm on the gradients themselves."""
    projected = rows.clone()
    for i, order in enumerate(orders):
        for j in order:
            dot = projected[i] @ rows[j]
            if dot < 0 and (include_self or i != j):
                projected[i] = projected[i] - dot / (rows[j] @ rows[j]) * rows[j]
    return projected


def merged_by(weights, rows, has):
    """What `Merged` makes of gradients of which some tasks have no entry: [n]."""
    everyone = has.bool().all(0)
    return torch.where(everyone, weights.all @ rows, weights.some @ rows)


@pytest.mark.parametrize("prefix", ["", "heads.", "seeded."])
def test_the_authors_numbers(prefix):
    said, part = read_golden("pcgrad", "project_conflicting")
    tensors = part("")
    source = "heads." if prefix == "seeded." else prefix
    rows = tensors[f"{source}in.grads"]
    has = tensors.get(f"{source}in.has_grad", torch.ones_like(rows))
    orders = said["seeded_orders"] if prefix == "seeded." else [list(range(len(rows)))] * len(rows)
    found = gramian(rows.double())
    c = project(found, orders, include_self=True)
    assert torch.allclose(c @ rows.double(), tensors[f"{prefix}mid.projected"].double(), atol=1e-5)
    total = c.sum(0)
    everyone = has.bool().all(0)
    out = torch.where(everyone, total / len(rows) @ rows.double(), total @ rows.double())
    assert torch.allclose(out, tensors[f"{prefix}out.merged"].double(), atol=1e-5)
    if prefix == "seeded.":
        # the same from the seed alone: Python's random, one list shuffled on and on
        way, seed = PCGradTseng(), said["seeded_random_seed"]
        assert way.whole
        assert way.orders(range(4), seed) == orders
        weights = way.merge(found, range(4), seed)
        merged = merged_by(weights, rows.double(), has)
        assert torch.allclose(merged, tensors["seeded.out.merged"].double(), atol=1e-5)
        assert torch.equal(weights.single, weights.some)


@given(
    seed=st.integers(0, 10**6),
    tasks=st.integers(1, 7),
    width=st.integers(1, 9),
    include_self=st.booleans(),
)
def test_equal_to_projecting_the_gradients(seed, tasks, width, include_self):
    rows = gradients(seed, tasks, width)
    way = PCGrad(include_self=include_self, reduction="sum")
    orders = way.orders(range(tasks), seed)
    assert [sorted(order) for order in orders] == [list(range(tasks))] * tasks
    expected = by_hand(rows, orders, include_self)
    assert torch.allclose(project(gramian(rows), orders, include_self) @ rows, expected, atol=1e-9)
    assert torch.allclose(way.merge(gramian(rows), range(tasks), seed).all @ rows, expected.sum(0), atol=1e-9)


@given(seed=st.integers(0, 10**6), tasks=st.integers(1, 7), scope=st.sampled_from(["shared", "all"]))
def test_without_conflict_it_is_the_plain_gradient_exactly(seed, tasks, scope):
    rows = gradients(seed, tasks, 5).abs()
    plain = torch.full((tasks,), 1 / tasks, dtype=torch.float64)
    merged = PCGrad(scope=scope).merge(gramian(rows), range(tasks), seed)
    assert torch.equal(merged.all, plain)
    assert torch.equal(merged.some, plain)
    assert torch.equal(merged.single, plain)
    sums = PCGrad(scope=scope, reduction="sum").merge(gramian(rows), range(tasks), seed)
    assert torch.equal(sums.all, torch.ones(tasks, dtype=torch.float64))
    assert torch.equal(sums.single, torch.ones(tasks, dtype=torch.float64))


@given(seed=st.integers(0, 10**6), width=st.integers(1, 9))
def test_two_tasks_never_lose(seed, width):
    rows = gradients(seed, 2, width, spread=2.0)
    for way in (PCGrad(), PCGrad(reduction="sum"), PCGrad(order=["0", "1"])):
        weights = way.merge(gramian(rows), range(2), seed).all
        assert worst(rows, weights) > -1e-12


def test_orders():
    drawn = {str(PCGrad().orders(range(4), seed)) for seed in range(20)}
    assert len(drawn) == 20
    given_order = PCGrad(order=["c", "a", "d", "b"]).of(["a", "b", "c", "d"])
    assert given_order.orders([0, 1, 2, 3], 5) == [[2, 0, 3, 1]] * 4
    # of the tasks present alone
    assert given_order.orders([1, 2, 3], 5) == [[1, 2, 0]] * 3
    names, rows = ["a", "b", "c"], gradients(4, 3, 2)
    ways = [PCGrad(order=order).of(names) for order in (names, names[::-1])]
    assert not torch.allclose(*[way.merge(gramian(rows), [0, 1, 2], 0).all for way in ways])


def test_orders_name_every_task():
    with pytest.raises(WeftError, match="order names the task 'cola'; did you mean 'colax'"):
        PCGrad(order=["cola", "rte"]).of(["colax", "rte"])
    with pytest.raises(WeftError, match="order lacks mrpc; expected every task that trains"):
        PCGrad(order=["cola", "rte"]).of(["cola", "rte", "mrpc"])
    way = build_conflict({"use": "pcgrad", "order": ["rte", "cola"]})
    assert way.of(["cola", "rte"]).order == ["rte", "cola"]
