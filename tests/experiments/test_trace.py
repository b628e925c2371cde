"""Traces: nothing is lost when they are thinned out, and those of strangers are checked."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.tiny_grid import run_here, write_grid
from weft.experiments.trace import LONGEST, picked, problem_of, summed, trace_of


def entries(counts):
    return [{"step": 10 * (n + 1), "examples": {"a": count, "b": 1}} for n, count in enumerate(counts)]


@given(st.lists(st.integers(0, 500), max_size=400))
def test_thinned_examples_add_up_to_the_same(counts):
    thinned = summed(entries(counts))
    assert len(thinned) == min(len(counts), LONGEST)
    assert sum(entry["examples"]["a"] for entry in thinned) == sum(counts)
    steps = [entry["step"] for entry in thinned]
    assert steps == sorted(set(steps))
    if counts:
        assert steps[-1] == 10 * len(counts)
        lengths = [entry["examples"]["b"] for entry in thinned]
        assert max(lengths) - min(lengths) <= 1


@given(st.integers(0, 400))
def test_picked_entries_are_even_and_have_both_ends(count):
    all_of_them = [{"step": n, "entropy": {"a": 0.5}} for n in range(count)]
    few = [entry["step"] for entry in picked(all_of_them)]
    assert len(few) == min(count, LONGEST)
    assert few == sorted(set(few))
    if count:
        assert (few[0], few[-1]) == (0, count - 1)


def test_a_log_with_lines_of_an_earlier_version_has_the_windows_of_evaluations(tmp_path):
    log = tmp_path / "log.jsonl"
    lines = [
        {"event": "step", "step": 5, "loss": {"a": 1.0}},
        {"event": "uncertainty", "step": 0, "entropy": {"a": 0.9, "b": None}},
        {"event": "step", "step": 10, "loss": {"a": 1.0}, "examples": {"a": 3}},
        {"event": "evaluation", "step": 10, "window": {"examples": {"a": 8, "b": 2}}},
    ]
    log.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert trace_of(log) == {
        "examples": [{"step": 10, "examples": {"a": 8, "b": 2}}],
        "entropy": [{"step": 0, "entropy": {"a": 0.9}}],
    }


@pytest.mark.parametrize(
    ("trace", "wrong"),
    [
        ({"examples": {}}, "examples"),
        ({"examples": [3]}, "examples"),
        ({"examples": [{"step": 1}]}, "examples"),
        ({"examples": [{"step": "1", "examples": {}}]}, "examples"),
        ({"examples": [{"step": 1, "examples": {"a": True}}]}, "examples"),
        ({"entropy": [{"step": 1, "entropy": {"a": float("nan")}}]}, "entropy"),
        ({"entropy": [{"step": 1, "examples": {"a": 1}}]}, "entropy"),
    ],
    ids=str,
)
def test_a_trace_of_a_stranger_has_numbers(trace, wrong):
    assert problem_of(trace) == f"trace.{wrong} is no list of steps with numbers"
    assert problem_of({"later": 3, "examples": [{"step": 1, "examples": {"a": 1}}]}) is None


@pytest.fixture(scope="module")
def records(tmp_path_factory, warm_workers):
    """Runs with and without evaluations, by a random sampler and by one that chooses."""
    folder = tmp_path_factory.mktemp("traces")
    text = """
variants:
  plain: {train.evaluate_every: 0}
  evaluated: {train.evaluate_every: 4}
  chosen: {train.sampler: mt_uncertainty, train.measure_uncertainty: 5, train.evaluate_every: 0}
measures: [composition]
"""
    grid = write_grid(folder, text, steps=10, log_every=3)
    compared = run_here(grid, folder / "out")
    assert not compared.failed
    return {variant: seeds[1] for variant, seeds in compared.records.items()}


@pytest.mark.parametrize("variant", ["plain", "evaluated", "chosen"])
def test_a_record_says_what_was_trained_on_over_time(variant, records):
    record = records[variant]
    examples = record.trace["examples"]
    assert [entry["step"] for entry in examples] == [3, 6, 9, 10]
    totals = {task: sum(entry["examples"][task] for entry in examples) for task in examples[0]["examples"]}
    # a batch of a small task may be short
    full = 10 * record.settings["train"]["batch_size"]
    assert 0.8 * full < sum(totals.values()) <= full
    shares = {task: 100 * count / sum(totals.values()) for task, count in totals.items()}
    assert shares == pytest.approx(record.measures["composition"])


def test_a_record_has_the_entropy_where_it_was_measured(records):
    assert "entropy" not in records["plain"].trace
    entropy = records["chosen"].trace["entropy"]
    assert [entry["step"] for entry in entropy] == [0, 5, 10]
    assert all(0 <= value <= 1 for entry in entropy for value in entry["entropy"].values())
