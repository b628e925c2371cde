"""`weft submit`, in this process: a tiny model's answers for test sets of the official sizes."""

from __future__ import annotations

import json
import random
import zipfile

import pytest
import yaml

from tests.support.tiny_run import assert_refused, save_encoder, sentence, write_rows
from weft.cli import run
from weft.evaluation.submission import glue, superglue

LABELS = {"cola": ["acceptable", "unacceptable"], "wnli": ["not_entailment", "entailment"]}
TEST_ROWS = {"cola": 1063, "wnli": 146, "cb": 250}


def rows(task, count, labelled=True):
    draw = random.Random(task)
    made = []
    for number in range(count):
        row = {"a": sentence(draw), "b": sentence(draw), "idx": number}
        made.append({**row, "label": number % 2} if labelled else row)
    return made


@pytest.fixture(scope="module")
def home(tmp_path_factory, token_cache):
    """A run of two GLUE tasks, one with its labels turned around, and one of SuperGLUE."""
    folder = tmp_path_factory.mktemp("submit")
    save_encoder(folder / "encoder")
    tasks = {}
    for name, count in TEST_ROWS.items():
        files = {split: f"{name}.{split}.jsonl" for split in ("train", "validation", "test")}
        for split, file in files.items():
            write_rows(folder / file, rows(name, count if split == "test" else 12, split != "test"))
        labels = LABELS.get(name, ["entailment", "contradiction", "neutral"])
        tasks[name] = {
            "labels": labels,
            "texts": ["a", "b"][: 1 if name == "cola" else 2],
            "id": ["idx"],
            **files,
        }
    content = {
        "encoder": "encoder",
        "method": {"use": "lora", "rank": 2},
        "tasks": tasks,
        "train": {"steps": 4, "batch_size": 8, "max_length": 24, "lr": 0.01, "evaluate_every": 2},
    }
    (folder / "run.yaml").write_text(yaml.safe_dump(content, sort_keys=False), encoding="utf-8")
    assert run(["train", str(folder / "run.yaml"), "--out", str(folder / "run")]) == 0
    return folder


def said(capsys, *arguments):
    capsys.readouterr()
    code = run(["submit", *map(str, arguments)])
    return code, capsys.readouterr()


def lines_of(place, file):
    with zipfile.ZipFile(place) as archive:
        return archive.read(file).decode().splitlines()


def expected(home, capsys, task):
    """What `weft predict` says for the same texts."""
    requests = [{**row, "task": task} for row in rows(task, TEST_ROWS[task], False)]
    file = write_rows(home / "asked.jsonl", requests)
    capsys.readouterr()
    assert run(["predict", str(home / "run"), str(file)]) == 0
    return [json.loads(line)["label"] for line in capsys.readouterr().out.splitlines()]


def test_glue(home, capsys, tmp_path):
    out = tmp_path / "glue.zip"
    code, told = said(capsys, home / "run", "--to", "glue", "--out", out)
    assert code == 0
    assert glue.check(out) == []
    table = [line.split() for line in told.out.splitlines()]
    assert ["CoLA.tsv", "1,063", "cola"] in table
    assert ["WNLI.tsv", "146", "filler"] in table
    assert (
        "filler: QQP.tsv holds no predictions of the model: there is no task 'qqp': every row is '0'"
        in told.out
    )
    assert "by the papers' rule the model's answers are left out (--wnli model" in told.out
    assert told.out.splitlines()[-1] == f"{out}: 11 files in the format of GLUE's server"
    # the task has its labels turned around; the server knows 0 as unacceptable
    words = {"unacceptable": "0", "acceptable": "1"}
    answers = [words[label] for label in expected(home, capsys, "cola")]
    assert lines_of(out, "CoLA.tsv") == ["index\tprediction", *(f"{n}\t{x}" for n, x in enumerate(answers))]
    before = out.read_bytes()
    assert said(capsys, home / "run", "--to", "glue", "--out", out)[0] == 0
    assert out.read_bytes() == before


def test_options(home, capsys, tmp_path):
    out = tmp_path / "glue.zip"
    options = ("--wnli", "model", "--fill", "cola", "--tasks", home / "run.yaml", "--json")
    code, told = said(capsys, home / "run" / "bundle", "--to", "glue", "--out", out, *options)
    assert code == 0
    found = json.loads(told.out)
    assert (found["benchmark"], found["zip"], found["problems"]) == ("glue", str(out), [])
    files = {entry["task"]: entry for entry in found["files"]}
    assert len(found["fillers"]) == 10
    assert files["wnli"] == {"file": "WNLI.tsv", "task": "wnli", "rows": 146, "filler": None, "why": ""}
    assert files["cola"]["filler"] == "1"
    assert files["cola"]["why"].startswith("requested by --fill")
    words = {"not_entailment": "0", "entailment": "1"}
    answers = [words[label] for label in expected(home, capsys, "wnli")]
    assert [line.split("\t")[1] for line in lines_of(out, "WNLI.tsv")[1:]] == answers


def test_superglue(home, capsys, tmp_path):
    out = tmp_path / "super.zip"
    code, told = said(capsys, home / "run", "--to", "superglue", "--out", out)
    assert code == 0
    assert superglue.check(out) == []
    assert told.out.splitlines()[-1].endswith("10 files in the format of SuperGLUE's server")
    answers = [json.loads(line) for line in lines_of(out, "CB.jsonl")]
    assert answers == [{"idx": n, "label": x} for n, x in enumerate(expected(home, capsys, "cb"))]


def test_check(home, capsys, tmp_path):
    out = tmp_path / "glue.zip"
    glue.write({}, out)
    code, told = said(capsys, out, "--to", "glue", "--check")
    assert (code, told.out) == (0, f"{out}: 11 files in the format of GLUE's server\n")
    code, told = said(capsys, out, "--to", "superglue", "--check")
    assert code == 2
    assert f"{out}: BoolQ.jsonl: the file is missing" in told.out
    assert told.out.splitlines()[-1] == f"{out}: 21 problems"
    code, told = said(capsys, out, "--to", "superglue", "--check", "--json")
    assert code == 2
    assert len(json.loads(told.out)["problems"]) == 21
    with zipfile.ZipFile(tmp_path / "one.zip", "w") as archive:
        archive.writestr("WNLI.tsv", "index\tprediction\n" + "x\t2\n" * 146)
    code, told = said(capsys, tmp_path / "one.zip", "--to", "glue", "--check")
    assert code == 2
    assert f"{tmp_path / 'one.zip'}: WNLI.tsv: … and 282 more" in told.out


CALLS = {
    "benchmark": (
        ["run", "--to", "gleu", "--out", "x.zip"],
        ["benchmark 'gleu' does not exist; did you mean 'glue'"],
    ),
    "no out": (
        ["run", "--to", "glue"],
        ["--out is missing; write: weft submit run --to glue --out glue.zip"],
    ),
    "a zip": (["x.zip", "--to", "glue"], ["x.zip is a file; to check a zip file, write: weft submit x.zip"]),
    "no zip": (["run", "--to", "glue", "--out", "x.tar"], ["--out x.tar: expected a name that ends in .zip"]),
    "no folder": (["run", "--to", "glue", "--out", "no/x.zip"], ["there is no folder no"]),
    "wnli": (
        ["run", "--to", "glue", "--out", "y.zip", "--wnli", "best"],
        ["--wnli best: expected majority or model"],
    ),
    "fill": (
        ["run", "--to", "glue", "--out", "y.zip", "--fill", "boolq"],
        ["--fill boolq: GLUE has no such"],
    ),
    "no bundle": (["nowhere", "--to", "glue", "--out", "y.zip"], ["nowhere"]),
    "no data": (
        ["run/bundle", "--to", "glue", "--out", "y.zip"],
        ["is a bundle, which holds no data", "--tasks"],
    ),
    "no test": (
        ["run", "--to", "glue", "--out", "y.zip", "--fill", "cola", "--fill", "wnli"],
        ["no task of GLUE has a test file"],
    ),
    "few rows": (
        ["run", "--to", "glue", "--out", "y.zip", "--tasks", "few.yaml"],
        ["task 'cola': found 12 examples in", "cola.train.jsonl; CoLA.tsv takes 1,063", "--fill cola"],
    ),
}


@pytest.mark.parametrize("case", CALLS)
def test_wrong_calls(case, home, capsys, monkeypatch):
    monkeypatch.chdir(home)
    (home / "x.zip").write_bytes(b"")
    content = yaml.safe_load((home / "run.yaml").read_text(encoding="utf-8"))
    content["tasks"]["cola"]["test"] = "cola.train.jsonl"
    (home / "few.yaml").write_text(yaml.safe_dump(content), encoding="utf-8")
    arguments, messages = CALLS[case]
    assert_refused(*said(capsys, *arguments), messages)
    assert not (home / "y.zip").exists()
