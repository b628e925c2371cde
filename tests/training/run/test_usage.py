"""The share of data used and the stretches without an example, against sets and a plain count."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.more import examples
from weft.errors import WeftError
from weft.training.run.usage import KEPT, Usage

Steps = list[list[tuple[int, int]]]


@st.composite
def runs(draw: Any) -> tuple[list[int], Steps, int]:
    """Sizes, the examples of each step as (task, index), and the steps of an epoch."""
    sizes = draw(st.lists(st.integers(1, 20), min_size=1, max_size=4))
    example = st.integers(0, len(sizes) - 1).flatmap(
        lambda t: st.tuples(st.just(t), st.integers(0, sizes[t] - 1))
    )
    steps = draw(st.lists(st.lists(example, min_size=1, max_size=5), min_size=1, max_size=14))
    return sizes, steps, draw(st.integers(1, 6))


def build(sizes: list[int], epoch_steps: int, starved: int | None = None) -> Usage:
    return Usage([f"t{i}" for i in range(len(sizes))], sizes, starved, epoch_steps)


def add(usage: Usage, number: int, step: list[tuple[int, int]]) -> list[str]:
    return usage.add(number, np.array([t for t, _ in step]), np.array([i for _, i in step]))


def shares(sizes: list[int], seen: set[tuple[int, int]]) -> dict[str, Any]:
    by_task = {f"t{t}": sum(own == t for own, _ in seen) / n for t, n in enumerate(sizes)}
    return {"share": len(seen) / sum(sizes), "by_task": by_task}


def longest_gap(steps: Steps, task: int) -> int:
    longest = gap = 0
    for step in steps:
        gap = 0 if any(t == task for t, _ in step) else gap + 1
        longest = max(longest, gap)
    return longest


@settings(max_examples=examples(60))
@given(runs())
def test_shares_and_stretches_are_counted(run):
    sizes, steps, epoch = run
    usage = build(sizes, epoch)
    for number, step in enumerate(steps):
        assert add(usage, number, step) == []
        so_far = steps[: number + 1]
        begun = len(so_far) // epoch * epoch
        assert usage.report() == {
            **shares(sizes, {e for s in so_far for e in s}),
            "epoch": {
                "number": begun // epoch + 1,
                "steps": len(so_far) - begun,
                **shares(sizes, {e for s in so_far[begun:] for e in s}),
            },
            "epochs": [
                {"number": k // epoch + 1, **shares(sizes, {e for s in so_far[k : k + epoch] for e in s})}
                for k in range(0, begun, epoch)
            ],
            "longest": {f"t{t}": longest_gap(so_far, t) for t in range(len(sizes))},
        }


@settings(max_examples=examples(60))
@given(runs(), st.data())
def test_a_resumed_count_goes_on_as_if_nothing_had_been(run, data):
    sizes, steps, epoch = run
    cut = data.draw(st.integers(0, len(steps)))
    stop = data.draw(st.none() | st.integers(0, len(sizes) - 1))
    straight, first = build(sizes, epoch, 1), build(sizes, epoch, 1)
    for number, step in enumerate(steps[:cut]):
        assert add(straight, number, step) == add(first, number, step)
    if stop is not None:
        straight.stopped(stop)
        first.stopped(stop)
    given_state = first.state()
    tensors = {key: given_state.pop(key).clone() for key in ("ever", "epoch")}
    resumed = build(sizes, epoch, 1)
    resumed.load_state({**json.loads(json.dumps(given_state)), **tensors})
    assert resumed.report() == straight.report()
    for number, step in enumerate(steps[cut:], cut):
        assert add(straight, number, step) == add(resumed, number, step)
        assert resumed.report() == straight.report()
    assert json.loads(json.dumps(resumed.report())) == resumed.report()


def test_a_task_that_goes_without_is_told_of_once_until_it_is_seen():
    usage = build([5, 5], 100, starved=2)
    told = [add(usage, n, [(0, 0)] if n != 5 else [(1, 3)]) for n in range(9)]
    assert [len(lines) for lines in told] == [0, 0, 1, 0, 0, 0, 0, 0, 1]
    assert "task 't1' has had no example for 3 steps, up to step 3" in told[2][0]
    assert usage.report()["longest"] == {"t0": 1, "t1": 5}


def test_a_stopped_task_does_not_starve():
    usage = build([5, 5], 100, starved=2)
    add(usage, 0, [(0, 0)])
    add(usage, 1, [(0, 0)])
    usage.stopped(1)
    assert [add(usage, n, [(0, 0)]) for n in range(2, 8)] == [[]] * 6
    assert usage.report()["longest"] == {"t0": 0, "t1": 2}


def test_a_report_does_not_grow_with_the_run():
    usage = build([5], 2)
    for number in range(2 * KEPT + 5):
        add(usage, number, [(0, number % 5)])
    assert [epoch["number"] for epoch in usage.report()["epochs"]] == list(range(3, KEPT + 3))
    assert usage.report()["epoch"]["number"] == KEPT + 3
    assert len(usage.state()["finished"]) == KEPT


def test_the_bits_of_a_checkpoint_are_one_an_example():
    usage = build([1000, 3], 10)
    add(usage, 0, [(0, 0), (0, 999), (1, 2)])
    assert {name: usage.state()[name].numel() for name in ("ever", "epoch")} == {"ever": 126, "epoch": 126}


def test_mistakes_are_told():
    usage = build([8, 8], 3)
    with pytest.raises(WeftError, match="expected step 0, found 1"):
        add(usage, 1, [(0, 0)])
    for other in (build([8, 9], 3), build([8, 8], 4), build([8, 8, 1], 3)):
        with pytest.raises(WeftError, match="expected 2 tasks, 16 examples and epochs of 3 steps"):
            usage.load_state(other.state())
    with pytest.raises(WeftError, match="epoch_steps must be at least 1"):
        build([1], 0)
