"""MORRIS, Table 2: the best weights by nine values on one half of validation, reported on the other half."""

from __future__ import annotations

import json
import shutil

import pytest

import weft
from tests.support.glue_rows import COLUMNS, write_glue_run
from weft import cli
from weft.errors import WeftError
from weft.evaluation.averages import average
from weft.evaluation.averages_of_run import averages_of_run
from weft.evaluation.run_metrics import read_metrics
from weft.training.run.folder import check_replaceable


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("halves")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WEFT_CACHE", str(folder / "cache"))
        file = write_glue_run(
            folder,
            {"evaluate_every": 3, "evaluate_rows": None, "best": "glue9"},
            halves=True,
            metrics={"stsb": ["spearman", "mse"], "mrpc": "f1"},
        )
        assert cli.run(["train", str(file), "--out", str(folder / "out")]) == 0
        yield folder


def events(folder):
    lines = (folder / "out" / "log.jsonl").read_text(encoding="utf-8").splitlines()
    return [event for event in map(json.loads, lines) if event["event"] == "evaluation"]


def test_nine_values_on_the_first_half_select(folder):
    by_step = {event["step"]: average("glue9", event["tasks"]).value for event in events(folder)}
    means = {event["step"]: event["average"] for event in events(folder)}
    metrics = json.loads((folder / "out" / "metrics.json").read_text())
    assert metrics["step"] == max(by_step, key=lambda step: (by_step[step], -step))
    assert metrics["selected"] == {"by": "glue9", "score": max(by_step.values())}
    assert by_step != means
    assert average("glue9", metrics["tasks"]).value == pytest.approx(max(by_step.values()))
    assert list(metrics["tasks"]["stsb"]) == ["spearman", "mse"]
    assert list(metrics["tasks"]["mrpc"]) == ["f1"]
    assert metrics["rows"]["mnli:mm"] == 4


def test_the_other_half_is_reported(folder, capsys, monkeypatch):
    monkeypatch.chdir(folder)
    assert cli.run(["show", "averages", "out", "--split", "test"]) == 2
    assert "it is written by: weft evaluate out --split test" in capsys.readouterr().err
    assert cli.run(["evaluate", "out", "--split", "test"]) == 0
    assert "written: out/metrics.test.json" in capsys.readouterr().err
    written = json.loads((folder / "out" / "metrics.test.json").read_text())
    assert written["split"] == "test"
    assert {name: written["rows"][name] for name in COLUMNS} == dict.fromkeys(COLUMNS, 5)
    assert cli.run(["show", "averages", "out", "--split", "test", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)["out"]
    assert shown["split"] == "test"
    assert shown["averages"]["glue9"]["value"] == average("glue9", written["tasks"]).value
    chosen = averages_of_run("out").averages["glue9"].value
    assert chosen == average("glue9", read_metrics(folder / "out").tasks).value
    assert cli.run(["show", "spread", "out", "--against", "out", "--split", "test"]) == 0
    assert "9 of 9 values of glue9 at or above the reference" in capsys.readouterr().out


def test_what_is_not_the_runs_score_is_not_written(folder, capsys):
    run, file = folder / "out", folder / "out" / "metrics.test.json"
    file.unlink(missing_ok=True)
    calls = {
        "rows": ["--rows", "2"],
        "precision": ["--precision", "bf16"],
        "--tasks": ["--tasks", str(folder / "run.yaml")],
    }
    for reason, options in calls.items():
        assert cli.run(["evaluate", str(run), "--split", "test", *options]) == 0
        told = capsys.readouterr().err
        assert "metrics.test.json is not written" in told
        assert reason in told
    weft.evaluate(run, split="validation", progress=False)
    weft.evaluate(run / "bundle", folder / "run.yaml", split="test", progress=False)
    assert not file.exists()
    assert weft.evaluate(run, split="test", progress=False)["tasks"] == read_metrics(run, "test").tasks


def test_scores_of_an_earlier_model_are_refused(folder, tmp_path):
    weft.evaluate(folder / "out", split="test", progress=False)
    copied = tmp_path / "out"
    shutil.copytree(folder / "out", copied)
    read_metrics(copied, "test")
    (copied / "bundle" / "tasks" / "rte.safetensors").unlink()
    with pytest.raises(WeftError, match=r"earlier model: the bundle has changed since; .*split='test'"):
        read_metrics(copied, "test")
    shutil.rmtree(copied / "bundle")
    read_metrics(copied, "test")  # a run without weights keeps its scores
    with pytest.raises(WeftError, match="split 'train': no metrics of it are stored"):
        read_metrics(copied, "train")


def test_a_run_with_test_scores_can_be_replaced(folder):
    weft.evaluate(folder / "out", split="test", progress=False)
    check_replaceable(folder / "out")


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("tasks.metrics={rte: [f1x]}", "metric 'f1x' does not exist"),
        ("tasks.metrics={cola: [pearson]}", "metric 'pearson' does not fit"),
        ("tasks.metrics={boolq: [f1]}", "metrics: suite 'glue' has no task 'boolq'"),
        ("train.best=pals_dev", "this run does not have stsb pearson, mrpc accuracy"),
    ],
)
def test_wrong_metrics(folder, override, message):
    with pytest.raises(WeftError, match=message):
        weft.load_run(folder / "run.yaml", [override])
