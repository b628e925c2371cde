"""The commands on a GPU, where they choose captured engines and captured inference by themselves."""

from __future__ import annotations

import json
import math

import pytest

from tests.support.near import assert_near
from tests.support.tiny_run import rows_of, trained_run, write_rows
from weft.cli import run

pytestmark = pytest.mark.gpu


def printed(capsys, arguments):
    """What a command that must succeed writes to standard output."""
    capsys.readouterr()
    code = run(arguments)
    told = capsys.readouterr()
    assert code == 0, told.err
    return told.out


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """A finished run of the tiny model."""
    with trained_run(tmp_path_factory.mktemp("gpu")) as folder:
        yield folder


def test_training_is_captured_and_verified(done):
    metrics = json.loads((done / "out" / "metrics.json").read_text())
    assert "engine_fallback" not in metrics
    end = json.loads((done / "out" / "log.jsonl").read_text().splitlines()[-1])
    assert end["engine"] == "graph"
    assert end["verified"]["shapes"] >= 1


def test_check_times_the_captured_engine(done, capsys):
    found = json.loads(printed(capsys, ["check", str(done / "run.yaml"), "--json"]))["estimate"]
    assert found["engine"] == "graph", found["note"]
    assert found["note"] is None
    assert found["timed"] >= 2
    assert 0 < found["step_seconds"] < 1
    assert 0 < found["startup_seconds"] < 300
    assert math.isfinite(found["seconds"])


def test_evaluate_finds_the_runs_own_numbers(done, capsys):
    """Captured passes of the last evaluation of a run and of the command have the same shapes."""
    metrics = json.loads((done / "out" / "metrics.json").read_text())
    found = json.loads(printed(capsys, ["evaluate", str(done / "out"), "--json"]))
    assert found["tasks"] == metrics["tasks"]
    rounded = json.loads(printed(capsys, ["evaluate", str(done / "out"), "--precision", "bf16", "--json"]))
    assert rounded["rows"] == found["rows"]
    assert rounded["tasks"]["count"] != found["tasks"]["count"]
    assert rounded["average"] == pytest.approx(found["average"], abs=0.1)


def test_predict_answers_as_on_a_cpu(done, capsys):
    rows = [
        {"task": task, **{column: value for column, value in row.items() if column != "label"}}
        for task in ("cat", "same", "count")
        for row in rows_of(task, 30, 5)
    ]
    asked = write_rows(done / "asked.jsonl", rows)
    both = [
        [
            json.loads(line)
            for line in printed(capsys, ["predict", str(done / "out"), str(asked), *more]).splitlines()
        ]
        for more in ([], ["--device", "cpu"])
    ]
    assert len(both[0]) == 90
    assert_near(*both, within=1e-3)
