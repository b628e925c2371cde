"""`weft evaluate --report` and `--predictions`: what is written, where, and what is refused."""

from __future__ import annotations

import csv
import json
import shutil

import pyarrow.parquet as pq
import pytest
import yaml
from sklearn.metrics import accuracy_score

import weft
from tests.support.tiny_run import assert_refused, rows_of, trained_run, write_rows
from weft import cli
from weft.bundle.manifest import bundle_sha256

LABELS = ("no", "yes")


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """A finished run whose task `cat` has a test split and a further set."""
    with trained_run(tmp_path_factory.mktemp("errors")) as folder:
        write_rows(folder / "cat.test.jsonl", rows_of("cat", 10, 7))
        write_rows(folder / "cat.more.jsonl", rows_of("cat", 8, 9))
        file = folder / "out" / "run.yaml"
        run = yaml.safe_load(file.read_text())
        (cat,) = (task for task in run["tasks"] if task["name"] == "cat")
        cat |= {
            "test": str(folder / "cat.test.jsonl"),
            "also": {"more": {"validation": str(folder / "cat.more.jsonl")}},
        }
        file.write_text(yaml.safe_dump(run, sort_keys=False))
        yield folder


@pytest.fixture
def out(done, tmp_path):
    """A copy of the run's folder."""
    shutil.copytree(done / "out", tmp_path / "out")
    return tmp_path / "out"


def command(capsys, *words):
    capsys.readouterr()
    code = cli.run(["evaluate", *map(str, words)])
    return code, capsys.readouterr()


def test_a_run_keeps_its_errors(out, capsys):
    code, printed = command(capsys, out, "--report")
    assert code == 0
    assert f"written: {out / 'errors.json'}" in printed.err
    report = json.loads((out / "errors.json").read_text())
    assert (report["format"], report["split"], report["precision"]) == (1, "validation", "float32")
    assert report["bundle"] == bundle_sha256(out)
    assert list(report["tasks"]) == ["cat", "cat:more", "same", "count"]
    assert (report["tasks"]["cat:more"]["task"], report["tasks"]["cat:more"]["set"]) == ("cat", "more")
    metrics = json.loads((out / "metrics.json").read_text())["tasks"]
    for name in ("cat", "same"):
        entry = report["tasks"][name]
        assert entry["metrics"]["accuracy"] == pytest.approx(metrics[name]["accuracy"])
        assert entry["wrong"] == round(entry["rows"] * (1 - metrics[name]["accuracy"]))
    # the same as --json prints, and as Python returns
    code, printed = command(capsys, out, "--report", "--json")
    assert json.loads(printed.out)["errors"] == report
    assert weft.evaluate(out, report=True, progress=False)["errors"] == report


def test_tables_are_printed(out, capsys):
    code, printed = command(capsys, out, "--report")
    assert code == 0
    lines = printed.out.splitlines()
    assert any(line.startswith("cat: ") and "examples are wrong" in line and "ECE" in line for line in lines)
    assert "same: Precision and recall by label" in lines
    assert "same: Gold label (rows) and predicted label (columns)" in lines
    assert "count: Residuals: prediction − gold" in lines
    assert any(line.startswith("same: the largest errors, by probability") for line in lines)
    assert "…" not in "".join(line for line in lines if "precision" in line)


def test_the_test_split_has_a_file_of_its_own(out, capsys, done):
    model = weft.load(out)
    tasks = [task for task in weft.load_run(out / "run.yaml").tasks if task.name == "cat"]
    found = weft.evaluate(model, tasks, split="test", report=True, progress=False)
    assert found["errors"]["bundle"] is None  # a model in memory
    for task in ("same", "count"):
        write_rows(done / f"{task}.test.jsonl", rows_of(task, 5, 4))
    run = yaml.safe_load((out / "run.yaml").read_text())
    for task in run["tasks"]:
        task.setdefault("test", str(done / f"{task['name']}.test.jsonl"))
    (out / "run.yaml").write_text(yaml.safe_dump(run, sort_keys=False))
    assert command(capsys, out, "--split", "test", "--report")[0] == 0
    report = json.loads((out / "errors.test.json").read_text())
    assert report["split"] == "test"
    # alone in a batch, rows have slightly different outputs
    for key in ("wrong", "metrics", "matrices", "kinds"):
        assert report["tasks"]["cat"][key] == found["errors"]["tasks"]["cat"][key]
    assert not (out / "errors.json").exists()
    assert "errors" not in json.loads((out / "metrics.test.json").read_text())


def test_a_bundle_needs_the_name_of_a_file(out, done, tmp_path, capsys):
    bundle, file = out / "bundle", tmp_path / "report.json"
    words = [bundle, "--tasks", done / "run.yaml"]
    before = sorted(path.name for path in bundle.iterdir())
    assert command(capsys, *words, "--report")[0] == 0
    assert command(capsys, *words, "--report-to", file)[0] == 0
    assert sorted(path.name for path in bundle.iterdir()) == before
    assert json.loads(file.read_text())["bundle"] == bundle_sha256(bundle)


def test_other_data_is_not_written_into_a_run(out, done, capsys):
    code, printed = command(capsys, out, "--tasks", done / "run.yaml", "--report")
    assert code == 0
    assert "errors.json is not written" in printed.err
    assert "name a file with --report-to FILE" in printed.err
    assert not (out / "errors.json").exists()


def test_a_part_of_the_rows_is_stated(out, capsys):
    assert command(capsys, out, "--report", "--rows", "5")[0] == 0
    entry = json.loads((out / "errors.json").read_text())["tasks"]["cat"]
    assert (entry["rows"], entry["of"]) == (5, 12)


def test_predictions_beside_gold(out, tmp_path, capsys):
    files = {form: tmp_path / f"rows.{form}" for form in ("jsonl", "csv", "parquet")}
    for file in files.values():
        code, printed = command(capsys, out, "--predictions", file, "--json")
        assert code == 0
        assert "errors" not in json.loads(printed.out)
        assert f"written: {file}" in printed.err
    assert not (out / "errors.json").exists()
    rows = [json.loads(line) for line in files["jsonl"].read_text().splitlines()]
    assert len(rows) == 12 + 8 + 12 + 12
    scores = json.loads(printed.out)["tasks"]
    for task in ("cat", "same"):
        of_task = [row for row in rows if row["task"] == task and row.get("set") is None]
        accuracy = accuracy_score([row["gold"] for row in of_task], [row["predicted"] for row in of_task])
        assert accuracy == pytest.approx(scores[task]["accuracy"])
        assert [row["right"] for row in of_task] == [row["gold"] == row["predicted"] for row in of_task]
    assert {row["set"] for row in rows if row["task"] == "cat"} == {None, "more"}
    assert [row["input"]["text"] for row in rows[:12]] == [row["text"] for row in rows_of("cat", 12, 2)]
    with files["csv"].open(newline="") as stream:
        table = list(csv.DictReader(stream))
    assert [line["gold"] for line in table[:12]] == [row["gold"] for row in rows[:12]]
    assert [float(line["probability"]) for line in table[:12]] == [row["probability"] for row in rows[:12]]
    columns = pq.read_table(files["parquet"]).to_pydict()
    assert columns["input.text"][:12] == [row["input"]["text"] for row in rows[:12]]
    assert columns["right"][:12] == [row["right"] for row in rows[:12]]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--predictions", "FOLDER"], "--predictions FOLDER: found a folder; expected the name of a file"),
        (["--predictions", "FOLDER/none/x.csv"], "there is no folder 'FOLDER/none'; make it first"),
        (["--report-to", "FOLDER"], "--report-to FOLDER: found a folder"),
        (["--report-to", "FOLDER/x", "--predictions", "FOLDER/x"], "written to one file, FOLDER/x; name two"),
    ],
)
def test_wrong_files_are_refused_before_the_model_is_loaded(
    done, tmp_path, capsys, monkeypatch, words, message
):
    monkeypatch.setattr("weft.bundle.load.load", lambda *a, **k: pytest.fail("the model was loaded"))
    words = [word.replace("FOLDER", str(tmp_path)) for word in words]
    code, printed = command(capsys, done / "out", *words)
    assert_refused(code, printed, [message.replace("FOLDER", str(tmp_path))])


def test_a_file_that_cannot_be_written_is_reported_with_the_scores(out, capsys):
    (out / "errors.json").mkdir()
    (out / "errors.json" / "mine").touch()
    code, printed = command(capsys, out, "--report")
    assert code == 0
    assert "this model" in printed.out
    assert f"errors.json is not written into {out}: " in printed.err


def test_hostile_texts_do_not_reach_the_terminal(tmp_path, done, capsys):
    hostile = "\x1b[2J\x1b]0;owned\x07 [red]cat[/red] <script>alert(1)</script>"
    rows = [{"text": f"{hostile} {n}", "label": LABELS[n % 2]} for n in range(12)]
    write_rows(tmp_path / "bad.jsonl", rows)
    task = {"cat": {"labels": list(LABELS), "validation": str(tmp_path / "bad.jsonl")}}
    (tmp_path / "run.yaml").write_text(yaml.safe_dump({"tasks": task}))
    words = [done / "out" / "bundle", "--tasks", tmp_path / "run.yaml", "--report-to", tmp_path / "r.json"]
    code, printed = command(capsys, *words)
    assert code == 0
    assert "\x1b" not in printed.out + printed.err
    assert "[red]cat[/red]" in printed.out  # as text, not as a color
    report = json.loads((tmp_path / "r.json").read_text())
    assert report["tasks"]["cat"]["examples"][0]["input"]["text"].startswith(hostile)
