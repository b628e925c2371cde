"""`weft.check` and `weft.load_run`."""

from __future__ import annotations

import json

import pytest

import weft
from tests.support.tiny_run import trained_run, write_rows, write_run
from weft import cli
from weft.errors import WeftError


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    with trained_run(tmp_path_factory.mktemp("check")) as folder:
        yield folder


def test_it_returns_what_the_command_prints(done, capsys):
    found = weft.check(done / "run.yaml", estimate=False)
    capsys.readouterr()
    assert cli.run(["check", str(done / "run.yaml"), "--no-estimate", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == json.loads(json.dumps(found.as_dict()))
    assert cli.run(["check", str(done / "run.yaml"), "--no-estimate"]) == 0
    assert capsys.readouterr().out == f"{found}\n"
    assert found.ok
    assert {facts.task for facts in found.facts} == {"cat", "same", "count"}
    assert repr(found) == f"CheckedRun(ok=True, {found.summary})"


def test_the_estimate(done):
    found = weft.check(done / "run.yaml", ["train.steps=7"])
    assert found.estimate is not None
    assert found.estimate.steps == 7
    assert found.estimate.memory.peak > 0
    assert found.as_dict()["estimate"]["seconds"] == found.estimate.seconds
    assert any(line.startswith("memory: about") for line in found.lines())


def test_every_way_to_name_a_run(done):
    metrics = json.loads((done / "out" / "metrics.json").read_text())
    expected = weft.check(done / "run.yaml", estimate=False).as_dict()
    for run in (
        str(done / "run.yaml"),
        weft.load_run(done / "run.yaml"),
        weft.Run(done / "out", metrics),
        done / "out",
    ):
        found = weft.check(run, estimate=False, progress=False)
        assert found.ok
        assert [facts.rows for facts in found.facts] == [facts["rows"] for facts in expected["splits"]]


def test_wrong_data_is_a_finding(tmp_path):
    path = write_run(tmp_path)
    write_rows(tmp_path / "cat.train.jsonl", [{"text": "a cat", "label": "maybe"}])
    found = weft.check(path)
    assert not found.ok
    assert found.estimate is None
    errors = [finding for finding in found.findings if finding.severity == "error"]
    assert [(e.task, e.split, e.row, e.value) for e in errors] == [("cat", "train", 1, "maybe")]
    assert "maybe" in str(found)


def test_a_run_file_that_is_wrong_itself_is_an_error(done):
    with pytest.raises(WeftError, match=r"train\.stesp"):
        weft.check(done / "run.yaml", ["train.stesp=3"])
    with pytest.raises(WeftError, match="overrides: expected a list"):
        weft.check(done / "run.yaml", "train.steps=3")
    with pytest.raises(WeftError, match=r"pass the overrides to weft\.load_run"):
        weft.check(weft.load_run(done / "run.yaml"), ["train.steps=3"])
    with pytest.raises(WeftError, match="expected a run file, the name of a preset, or a run"):
        weft.check(7)


def test_load_run(done):
    run = weft.load_run(done / "run.yaml", ["train.steps=3", "method.rank=1"])
    assert (run.training.steps, run.method.rank) == (3, 1)
    assert repr(run).endswith("method='lora', tasks: cat, same, count; 3 steps)")
    assert len(repr(run)) < 300
    again = weft.load_run(done / "out")  # the folder of a run, which holds everything resolved
    assert again.tasks == weft.load_run(done / "run.yaml").tasks
    assert again.resolved == weft.load_run(done / "out" / "run.yaml").resolved
    assert weft.load_run("quickstart").tasks
    with pytest.raises(WeftError, match="there is no run file"):
        weft.load_run(done / "out" / "bundle")


def test_a_run_file_builds_its_model_and_trains(done):
    """The library's way to what `weft train` does: the same numbers."""
    run_file = weft.load_run(done / "run.yaml")
    model = run_file.build_model()
    assert [task.name for task in model.tasks] == ["cat", "same", "count"]
    run = weft.train(model, run_file.training, done / "by-hand", progress=False)
    assert run.metrics["tasks"] == json.loads((done / "out" / "metrics.json").read_text())["tasks"]
