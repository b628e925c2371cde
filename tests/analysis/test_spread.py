"""Task σ and tasks at or above a reference, by hand and on the paper's tables."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.analysis.plots.spread import write_differences, write_metrics
from weft.analysis.spread import compare, counts, spread_of
from weft.errors import WeftError

NAMES = ("cola", "mnli", "mnli-mm", "mrpc", "qnli", "qqp", "rte", "sst2", "stsb")
DEV = (60.9, 82.7, 83.1, 88.9, 90.7, 90.3, 79.1, 91.9, 88.8)  # Table 3.9, CA-MTL base
SINGLE = (52.1, 84.6, 83.4, 88.9, 90.5, 71.2, 66.4, 93.5, 85.8)  # Table 3.2, BERT-base, one model a task
MULTI = {
    "plain": ((51.2, 84.0, 83.4, 86.7, 89.3, 70.8, 76.6, 93.4, 83.6), 2),
    "pals": ((51.2, 84.3, 83.5, 88.7, 90.0, 71.5, 76.0, 92.6, 85.8), 4),
    "ca-mtl": ((53.1, 85.9, 85.8, 88.6, 90.5, 69.2, 76.4, 93.2, 85.3), 5),
}


def run_of(values, names=NAMES, metric="score"):
    return {name: {metric: value / 100} for name, value in zip(names, values, strict=True)}


def test_the_papers_nine_numbers():
    """Table 3.1 prints 10.02 for the run of Table 3.9; no choice of ddof gives it."""
    assert spread_of(run_of(DEV)).sigma == pytest.approx(9.709, abs=1e-3)
    assert spread_of(run_of(DEV), ddof=0).sigma == pytest.approx(9.154, abs=1e-3)
    assert spread_of(run_of(DEV)).mean == pytest.approx(84.044, abs=1e-3)


@pytest.mark.parametrize("name", MULTI)
def test_the_papers_tasks_at_or_above(name):
    values, printed = MULTI[name]
    compared = compare(run_of(values), {"single": run_of(SINGLE)})
    assert counts(compared) == (printed, 9)


@given(
    st.lists(st.lists(st.floats(-1, 1), min_size=1, max_size=3), min_size=1, max_size=6), st.integers(0, 2)
)
def test_sigma_is_the_standard_deviation_of_all_metrics(values, ddof):
    tasks = {f"t{n}": {f"m{k}": x for k, x in enumerate(own)} for n, own in enumerate(values)}
    found = spread_of(tasks, ddof)
    flat = [x for own in values for x in own]
    assert len(found.values) == len(flat)
    assert found.mean == pytest.approx(100 * np.mean(flat), abs=1e-9)
    if len(flat) > ddof:
        assert found.sigma == pytest.approx(100 * np.std(flat, ddof=ddof), abs=1e-9)
    else:
        assert math.isnan(found.sigma)


def test_both_metrics_count_and_errors_and_what_is_asked_for_do_not():
    tasks = {"a": {"accuracy": 0.9, "f1": 0.5}, "b": {"mse": 3.0}, "c": {"pearson": 0.7, "mse": 0.1}}
    found = spread_of(tasks)
    assert [v.name for v in found.values] == ["a.accuracy", "a.f1", "c.pearson"]
    assert [v.name for v in found.left_out] == ["b.mse", "c.mse"]
    assert found.sigma == pytest.approx(20)
    less = spread_of(tasks, without=["a.f1"])
    assert [v.name for v in less.values] == ["a.accuracy", "c.pearson"]
    with pytest.raises(WeftError, match=r"'a.f2' is not a metric of this run; did you mean 'a.f1'"):
        spread_of(tasks, without=["a.f2"])
    with pytest.raises(WeftError, match="ddof -1: expected 0 or more"):
        spread_of(tasks, -1)
    only_errors = spread_of({"b": {"mse": 3.0}})
    assert math.isnan(only_errors.sigma)
    assert math.isnan(only_errors.mean)


def test_the_best_of_the_references_counts():
    tasks = {"a": {"f1": 0.8, "accuracy": 0.9}, "b": {"mse": 0.2}, "c": {"accuracy": 0.5}}
    references = {
        "one": {"a": {"accuracy": 0.1, "f1": 0.7}},
        "two": {"a": {"f1": 0.8}, "b": {"mse": 0.1}},
        "three": {"b": {"mse": 0.3}},
    }
    a, b, c = compare(tasks, references)
    assert (a.metric, a.reference, a.source, a.difference, a.at_or_above) == ("f1", 0.8, "two", 0.0, True)
    assert (b.reference, b.source, b.at_or_above) == (0.1, "two", False)
    assert b.difference == pytest.approx(0.1)
    assert (c.reference, c.source, c.difference, c.at_or_above) == (None, None, None, None)
    assert counts([a, b, c]) == (1, 2)
    lower = compare({"b": {"mse": 0.05}}, references)
    assert lower[0].at_or_above


def test_a_reference_without_the_metric_is_told():
    with pytest.raises(WeftError, match=r"runs/x: task 'a' has no 'f1', .* found accuracy"):
        compare({"a": {"f1": 0.8}}, {"runs/x": {"a": {"accuracy": 0.1}}})


def test_the_pictures(tmp_path):
    tasks = {"a": {"f1": 0.8}, "b": {"mse": 0.2}, "c": {"accuracy": 0.5}, "d": {"accuracy": 0.25}}
    references = {"one": {"a": {"f1": 0.75}, "b": {"mse": 1.0}, "c": {"accuracy": 0.625}}}
    for name in ("a.svg", "b.svg"):
        write_differences(compare(tasks, references), tmp_path / name, "1 of 2")
    text = (tmp_path / "a.svg").read_text(encoding="utf-8")
    assert (tmp_path / "b.svg").read_text(encoding="utf-8") == text
    for word in ("a, f1", "c, accuracy", " +5.0 ", " -12.5 ", "1 of 2"):
        assert f">{word}<" in text
    assert "b, mse; d, accuracy" in text  # named, not drawn
    write_metrics(spread_of(tasks), tmp_path / "m.svg", "metrics")
    text = (tmp_path / "m.svg").read_text(encoding="utf-8")
    assert "> 80.0 <" in text
    assert "mse" not in text
    for nothing in (spread_of({"b": {"mse": 3.0}}), spread_of({"a": {"f1": 0.5}})):
        write_metrics(nothing, tmp_path / "n.png", "little")
    write_differences(compare(tasks, {}), tmp_path / "none.png", "nothing to compare")
    assert (tmp_path / "none.png").read_bytes().startswith(b"\x89PNG")
