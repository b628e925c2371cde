"""Claims compared with the records of a grid."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from weft.experiments.claims import Term, claim_results, claim_sums
from weft.experiments.claims.of_records import RecordedData
from weft.experiments.grid import Grid, read_grid
from weft.experiments.records import Record


def grid_of(*tests: str) -> Grid:
    lines = [f'  - "{test}"' for test in tests]
    text = "run: {encoder: minilm, tasks: {suite: swatch}}\nvariants: {a: {}, b: {}}\nclaims:\n" + "\n".join(
        lines
    )
    return read_grid(text, "grid.yaml", Path())


def record(seed: int, better: float) -> Record:
    score = 0.5 + 0.01 * seed + better
    return Record(
        identity="0" * 64,
        metrics={"x": {"accuracy": score, "f1": 0.4}, "y": {"matthews": score - 0.2}},
        curve=[
            {"step": 10, "tasks": {"x": {"accuracy": 0.3, "f1": 0.1}, "y": {"matthews": 0.1}}},
            {"step": 20, "tasks": {"x": {"accuracy": score}, "y": {"matthews": score - 0.2}}},
        ],
        parameters={"encoder": 200, "trained": 20, "total_ratio": 1.1},
        seconds={"train": 30.0 + seed, "all": 50.0},
        memory=3 * 2**30,
        measures={"engine": "eager", "difficulty": {"x": 1.0, "y": 3.0}, "data_used": 80.0},
    )


RECORDS = {"a": {s: record(s, 0.1) for s in (1, 2, 3)}, "b": {s: record(s, 0.001 * s) for s in (1, 2, 3)}}


def test_every_function_finds_its_value():
    data = RecordedData(grid_of("average(a) > 0"), RECORDS, {})
    assert data.per_seed("average", "a") == pytest.approx({1: 51.0, 2: 52.0, 3: 53.0})
    assert data.per_seed("score", "a", "x") == pytest.approx({1: 61.0, 2: 62.0, 3: 63.0})
    assert data.per_seed("score", "a", "z") == {}
    assert data.per_seed("parameters", "a") == {1: 10.0, 2: 10.0, 3: 10.0}
    assert data.per_seed("total_ratio", "a")[1] == 1.1
    assert data.per_seed("seconds", "a")[2] == 32.0
    assert data.per_seed("memory", "a")[2] == 3.0
    assert data.per_seed("measure", "a", "data_used")[1] == 80.0
    assert data.per_seed("measure", "a", "difficulty")[1] == 2.0  # the mean over tasks
    assert data.per_seed("measure", "a", "bundled") == {}
    assert data.per_seed("spread", "a")[1] == pytest.approx(11.85, abs=0.01)  # of 61, 40 and 41
    assert data.per_seed("average", "c") == {}
    assert data.curve("a")[1][1] == (20, pytest.approx({"x": 61.0, "y": 41.0}))
    assert data.series("score", "b")[1] == pytest.approx({"x": 51.1, "y": 31.1})
    assert data.series("difficulty", None)[1] == {"x": 1.0, "y": 3.0}
    assert data.series("first_peak", None) == {}


def test_a_curve_without_a_task_is_of_the_average_that_the_tables_report():
    plain = RecordedData(grid_of("average(a) > 0"), RECORDS, {})
    assert plain.average_curve("a")[1] == [(10, pytest.approx(20.0)), (20, pytest.approx(51.0))]
    of_task = RecordedData(replace(plain.grid, average="y"), RECORDS, {})
    assert of_task.average_curve("a")[1] == [(10, pytest.approx(10.0)), (20, pytest.approx(41.0))]
    # an average of a paper takes the accuracy of mrpc, whatever metric comes first
    point = {"step": 5, "tasks": {"mrpc": {"f1": 0.9, "accuracy": 0.8}, "cola": {"matthews": 0.4}}}
    of_paper = RecordedData(
        replace(plain.grid, average="pals_dev"), {"a": {1: replace(RECORDS["a"][1], curve=[point])}}, {}
    )
    assert of_paper.average_curve("a") == {1: [(5, pytest.approx(60.0))]}
    assert of_paper.curve("a")[1][0][1]["mrpc"] == pytest.approx(90.0)
    left_out = replace(RECORDS["a"][1], curve=[{"step": 5, "tasks": {"x": {"accuracy": 1.0}}}, point])
    without = RecordedData(replace(plain.grid, average="mrpc"), {"a": {1: left_out}}, {})
    assert without.average_curve("a") == {1: [(5, pytest.approx(90.0))]}


def test_a_claim_may_name_one_task_or_one_pair_of_tasks():
    measures = {"query_pairs": {"x × y": 0.25, "x × z": 0.5}, "composition": {"x": 30.0, "y": 70.0}}
    records = {"a": {s: Record(identity="0" * 64, measures=measures) for s in (1, 2, 3)}}
    data = RecordedData(grid_of("average(a) > 0"), records, {})
    assert data.per_seed("measure", "a", "query_pairs", ("x", "y"))[1] == 0.25
    assert data.per_seed("measure", "a", "query_pairs", ("y", "x"))[1] == 0.25  # in either order
    assert data.per_seed("measure", "a", "query_pairs")[1] == 0.375  # the mean
    assert data.per_seed("measure", "a", "composition", ("y",))[1] == 70.0
    assert data.per_seed("measure", "a", "query_pairs", ("y", "z")) == {}
    tests = ("measure(a, query_pairs, y, x) <= 0.25", "measure(a, composition, x) > 40")
    held, not_held = claim_results(grid_of(*tests), records)
    assert (held.verdict, not_held.verdict) == ("held", "not held")
    (missing,) = claim_results(grid_of("measure(a, query_pairs, y, z) > 0"), records)
    assert missing.verdict == "undecided"
    assert "variant 'a' has no value of 'query_pairs' for y and z, for measure" in missing.why


def test_claims_are_compared_with_records():
    tests = ("average(a) > average(b)", "score(a, y) < score(b, y)", "steps_to(a, 0.9) <= 20")
    more = ("parameters(a) <= parameters(b)", "measure(a, data_used) > 90", "gain(a, b) >= 9.8")
    results = claim_results(grid_of(*tests, *more), RECORDS)
    verdicts = [result.verdict for result in results]
    assert verdicts == ["held", "not held", "held", "held", "not held", "undecided"]
    assert all(result.text == result.test for result in results)


def test_the_sums_of_the_statistics_give_intervals():
    grid = grid_of(
        "average(a) > average(b)",
        "average(b) < average(a)",
        "score(a, x) > score(b, x)",
        "score(a, y) > score(b, y)",
        "average(a) > (average(b) + average(a)) / 2",
    )
    sums = [
        {"estimate": 0.098, "interval": [-0.01, 0.2], "df": 3.0},
        {"estimate": 0.09, "interval": [0.01, 0.17], "df": 3.0},
        None,
        {"estimate": 0.049, "interval": [0.02, 0.1], "df": 3.0},
    ]
    assert len(claim_sums(grid)) == 4
    data = RecordedData(grid, RECORDS, {"combinations": sums})
    found = data.difference_interval([Term(1.0, "a"), Term(-1.0, "b")])
    assert found is not None
    assert found == pytest.approx((9.8, -1, 20, 3))
    assert data.difference_interval([Term(1.0, "a", "y"), Term(-1.0, "b", "y")]) is None
    assert data.difference_interval([Term(1.0, "a")]) is None
    results = claim_results(grid, RECORDS, {"combinations": sums})
    assert [result.verdict for result in results][:3] == ["undecided", "undecided", "held"]
    assert results[4].interval == pytest.approx((2.0, 10.0))


def test_the_sums_of_claims():
    grid = grid_of("average(a) > average(b)", "gain(a, b) > 1", "score(a, x) > 3", "seconds(a) > 1")
    assert claim_sums(grid) == [((1.0, "a", None), (-1.0, "b", None)), ((1.0, "a", "x"),)]


def test_a_run_without_a_task_of_the_others_has_no_average():
    """Its average would be that of other tasks: the tables have none either."""
    metrics = {"a": {"accuracy": 0.5}, "b": {"accuracy": 0.7}}
    curve = [{"step": 1, "tasks": metrics}]
    few = {"a": {"accuracy": 0.9}}
    records = {
        "all": {1: Record("0" * 64, metrics=metrics, curve=curve)},
        "few": {1: Record("1" * 64, metrics=few, curve=[{"step": 1, "tasks": few}])},
    }
    grid = read_grid("run: {encoder: minilm, tasks: {suite: swatch}}\n", "grid.yaml", Path())
    data = RecordedData(grid, records, {})
    assert data.per_seed("average", "all") == {1: pytest.approx(60)}
    assert data.per_seed("average", "few") == {}
    assert data.per_seed("score", "few", "a") == {1: pytest.approx(90)}
    assert data.average_curve("all") == {1: [(1, pytest.approx(60))]}
    assert data.average_curve("few") == {1: []}
