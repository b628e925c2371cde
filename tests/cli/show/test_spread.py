"""`weft show spread` on runs that are written by hand: what its numbers are called."""

from __future__ import annotations

import json

from weft.cli import run


def written(folder, tasks):
    folder.mkdir()
    rows = dict.fromkeys(tasks, 10)
    (folder / "metrics.json").write_text(json.dumps({"tasks": tasks, "split": "test", "rows": rows}), "utf-8")
    return str(folder)


def said(capsys, *arguments):
    capsys.readouterr()
    assert run(["show", "spread", *arguments]) == 0
    return capsys.readouterr()


def test_errors_are_left_out_and_said_to_be(capsys, tmp_path):
    folder = written(tmp_path / "a", {"a": {"mse": 0.5, "pearson": 0.5}, "b": {"accuracy": 0.75}})
    told = said(capsys, folder)
    assert "errors are not between 0 and 1: a.mse" in told.err
    assert told.out.splitlines()[-1] == (
        "mean 62.5%; task σ (standard deviation): 17.7 percentage points over 2 metrics (ddof 1)"
    )


def test_the_units_and_the_reference_are_named(capsys, tmp_path):
    this = written(tmp_path / "this", {"a": {"accuracy": 0.5}, "b": {"mse": 0.5}})
    other = written(tmp_path / "other", {"a": {"accuracy": 0.625}, "b": {"mse": 1.0}})
    lines = said(capsys, this, "--against", other).out.splitlines()
    assert lines[0] == f"{this}: test scores in percent, first metric of each task"
    assert [line.split() for line in lines[1:4]] == [
        ["task", "metric", "this", "run", "reference", "difference", "at", "or", "above"],
        ["a", "accuracy", "50.0", "62.5", "-12.5", "no"],
        ["b", "mse", "0.500", "1.000", "-0.500", "yes"],
    ]
    assert lines[4:7] == [
        f"reference: {other}",
        "difference: this run minus the reference, in percentage points; errors such as mse are unscaled",
        "1 of 2 tasks at or above the reference",
    ]


def test_one_metric_has_no_spread(capsys, tmp_path):
    lines = said(capsys, written(tmp_path / "a", {"a": {"accuracy": 0.5}})).out.splitlines()
    assert lines[-1] == "task σ: not defined over 1 metrics (ddof 1)"
