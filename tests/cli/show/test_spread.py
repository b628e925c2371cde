"""`weft show spread` on runs that are written by hand: what its numbers are called."""

from __future__ import annotations

import json

import pytest

from tests.support.tiny_run import assert_refused
from weft.cli import run

# CA-MTL, Table 3.2: CoLA, MNLI m, mm, MRPC F1, QNLI, QQP F1, RTE, SST-2, STS-B
SEPARATE = (52.1, 84.6, 83.4, 88.9, 90.5, 71.2, 66.4, 93.5, 85.8)
ROWS = {
    "plain": ((51.2, 84.0, 83.4, 86.7, 89.3, 70.8, 76.6, 93.4, 83.6), 2),
    "pals": ((51.2, 84.3, 83.5, 88.7, 90.0, 71.5, 76.0, 92.6, 85.8), 4),
    "ca-mtl": ((53.1, 85.9, 85.8, 88.6, 90.5, 69.2, 76.4, 93.2, 85.3), 5),
}


def glue(row):
    """A row of the table as a run of the suite `glue` writes it; second metrics are not printed there."""
    cola, matched, mismatched, mrpc, qnli, qqp, rte, sst2, stsb = (value / 100 for value in row)
    return {
        "cola": {"matthews": cola, "accuracy": 0.5},
        "sst2": {"accuracy": sst2},
        "mrpc": {"f1": mrpc, "accuracy": 0.5},
        "stsb": {"pearson": 0.5, "spearman": stsb},
        "qqp": {"f1": qqp, "accuracy": 0.5},
        "mnli": {"accuracy": matched, "accuracy_mm": mismatched},
        "qnli": {"accuracy": qnli},
        "rte": {"accuracy": rte},
    }


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


@pytest.mark.parametrize("name", ROWS)
def test_the_rows_of_table_3_2_count_as_the_thesis_prints(name, capsys, tmp_path):
    row, printed = ROWS[name]
    this, other = written(tmp_path / "this", glue(row)), written(tmp_path / "separate", glue(SEPARATE))
    lines = said(capsys, this, "--against", other).out.splitlines()
    assert f"{printed} of 9 values of glue9 at or above the reference" in lines
    assert any(line.endswith("of 8 tasks at or above the reference") for line in lines)
    lines = said(capsys, this, "--against", other, "--average", "glue9").out.splitlines()
    assert lines[0] == f"{this}: test scores in percent, the values of glue9"
    assert lines[-3] == f"{printed} of 9 values of glue9 at or above the reference"
    assert ["mnli", "accuracy_mm"] in [line.split()[:2] for line in lines]
    told = json.loads(said(capsys, this, "--against", other, "--json").out)
    assert told["averages"]["glue9"] == {"at_or_above": printed, "compared": 9}
    assert told["compared"] == 8
    told = json.loads(said(capsys, this, "--against", other, "--average", "glue9", "--json").out)
    assert (told["average"], told["at_or_above"], told["compared"]) == ("glue9", printed, 9)


def test_single_task_runs_as_references(capsys, tmp_path):
    """One reference per task; the values of a task without a reference are not compared."""
    row, printed = ROWS["ca-mtl"]
    this = written(tmp_path / "this", glue(row))
    references = [
        argument
        for task, metrics in glue(SEPARATE).items()
        if task != "mnli"
        for argument in ("--against", written(tmp_path / task, {task: metrics}))
    ]
    lines = said(capsys, this, *references).out.splitlines()
    assert f"{printed - 2} of 7 values of glue9 at or above the reference; 2 not compared" in lines


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--average", "glue9"], "--average glue9 compares with a reference: add --against RUN"),
        (["--average", "glue", "--against", "SELF"], "average 'glue' does not exist; did you mean 'glue9'"),
        (["--average", "ner", "--against", "SELF"], "has no value of the average 'ner'"),
    ],
)
def test_wrong_averages(capsys, tmp_path, options, message):
    folder = written(tmp_path / "a", {"rte": {"accuracy": 0.5}})
    capsys.readouterr()
    code = run(["show", "spread", folder, *(folder if option == "SELF" else option for option in options)])
    assert_refused(code, capsys.readouterr(), [message])
