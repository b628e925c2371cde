"""`weft task`, in this process."""

from __future__ import annotations

import json
import shutil

import pytest
import yaml

from tests.support.tiny_run import assert_refused, rows_of, write_rows, write_run
from weft.bundle.one_task import hashes
from weft.cli import run


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """A finished run of the tiny model, and the data of a task more."""
    folder = tmp_path_factory.mktemp("cli")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WEFT_CACHE", str(folder / "cache"))
        assert run(["train", str(write_run(folder, steps=4)), "--out", str(folder / "run")]) == 0
        write_rows(folder / "new.jsonl", rows_of("cat", 40, 5))
        yield folder


def task_file(folder, name="task.yaml", **changes):
    said = {
        "tasks": {"new": {"labels": ["no", "yes"], "train": "new.jsonl"}},
        "train": {"steps": 3, "batch_size": 8, "lr": 0.01},
        **changes,
    }
    path = folder / name
    path.write_text(yaml.safe_dump(said, sort_keys=False), encoding="utf-8")
    return path


def said(capsys, *arguments):
    capsys.readouterr()
    code = run([str(argument) for argument in arguments])
    return code, capsys.readouterr()


def test_a_task_more_and_less(done, capsys, tmp_path):
    file = task_file(done, grow={"label_map": {"cat": {"no": "no", "yes": "yes"}}})
    code, told = said(
        capsys,
        "task",
        "add",
        done / "run",
        file,
        "--out",
        tmp_path / "b2",
        "--start",
        "auto",
        "--fraction",
        0.5,
    )
    assert code == 0, told.err
    for words in (
        "new: zero-shot score of each initialization, on 4 rows",
        "cat's, by label map",
        "random, mean of 5 seeds",
        "majority",
        "rows: 18 of 36 training rows used, 4 validation rows",
        "unchanged, byte for byte: 4 files",
        f"bundle: {tmp_path / 'b2'}",
    ):
        assert words in told.out, words
    assert "4 of 40 training rows are used for validation" in told.err
    code, told = said(capsys, "task", "remove", tmp_path / "b2", "new", "--out", tmp_path / "b3")
    assert code == 0
    assert hashes(tmp_path / "b3") == hashes(done / "run" / "bundle")
    assert "removed task new" in told.out


def test_json_is_all_there_is_on_standard_output(done, capsys, tmp_path):
    file = task_file(done)
    add = ["task", "add", done / "run", file, "train.steps=2", "--out", tmp_path / "b2"]
    code, told = said(capsys, *add, "--start", "auto", "--run", tmp_path / "kept", "--json")
    assert code == 0
    found = json.loads(told.out)
    assert [c["start"] for c in found["zero_shot"]["candidates"]] == [
        "cat",
        "same",
        "count",
        "average",
        "random",
    ]
    assert found["start"] == found["zero_shot"]["best"]
    assert found["scores"]["rows"] == {"new": 4}
    assert found["unchanged"] == {
        k: v for k, v in hashes(done / "run" / "bundle").items() if k != "bundle.json"
    }
    resolved = yaml.safe_load((tmp_path / "kept" / "run.yaml").read_text())
    assert resolved["train"]["steps"] == 2
    assert resolved["train"]["max_length"] == 24  # the bundle's
    assert resolved["tasks"][0]["train"] == str(done / "new.jsonl")
    assert json.loads((tmp_path / "kept" / "metrics.json").read_text())["tasks"] == found["scores"]["tasks"]

    again = task_file(done, "again.yaml", train={"steps": 2})
    code, told = said(
        capsys,
        "task",
        "retrain",
        tmp_path / "b2",
        "new",
        again,
        "--only",
        "head",
        "--out",
        tmp_path / "b2",
        "--json",
    )
    assert code == 0
    assert json.loads(told.out)["only"] == "head"
    code, told = said(
        capsys, "task", "copy", tmp_path / "b2", "new", done / "run", "--out", tmp_path / "b3", "--json"
    )
    assert code == 0
    assert json.loads(told.out)["task"] == "new"
    code, told = said(capsys, "task", "remove", tmp_path / "b3", "new", "--out", tmp_path / "b3", "--json")
    assert code == 0
    assert json.loads(told.out)["unchanged"] == found["unchanged"]


def test_the_table_of_starts_alone(done, capsys, tmp_path):
    file = task_file(done, grow={"label_map": {"cat": {"no": "no", "yes": "yes"}}})
    before = sorted(done.rglob("*"))
    add = ["task", "add", done / "run", file, "--zero-shot"]
    code, told = said(capsys, *add)
    assert code == 0, told.err
    for words in ("new: zero-shot score of each initialization, on 4 rows", "best", "nothing was trained"):
        assert words in told.out, words
    code, told = said(capsys, *add, "--json", "--out", tmp_path / "b2", "grow.zero_shot_rows=2")
    assert code == 0
    table = json.loads(told.out)
    assert table["task"] == "new"
    assert table["zero_shot"]["rows"] == 2
    assert table["zero_shot"]["best"] in [c["start"] for c in table["zero_shot"]["candidates"]]
    assert not (tmp_path / "b2").exists()
    assert [path for path in sorted(done.rglob("*")) if "cache" not in path.parts] == [
        path for path in before if "cache" not in path.parts
    ]
    code, told = said(capsys, *add[:-1])
    assert_refused(code, told, ["--out is missing; expected --out FOLDER, or --zero-shot"])


def test_every_mistake_of_a_task_file_at_once_with_its_line(done, capsys, tmp_path):
    path = done / "wrong.yaml"
    path.write_text(
        "encoder: minilm\n"
        "tasks:\n"
        "  new: {labels: ['no', 'yes'], train: new.jsonl}\n"
        "train:\n"
        "  stepps: 3\n"
        "  max_length: 30\n"
        "grow:\n"
        "  start: dog\n"
        "  fraction: 2\n"
        "  label_map: {same: {'no': x}}\n"
        "  onyl: task\n"
    )
    code, told = said(capsys, "task", "add", done / "run", path, "--out", tmp_path / "b2")
    assert_refused(
        code,
        told,
        [
            "line 1, encoder: this is fixed by the bundle",
            "line 5, train.stepps: no such setting; did you mean 'steps'?",
            "line 9, grow.fraction: expected less than or equal to 1; found 2",
            "line 11, grow.onyl: no such setting; did you mean 'only'?",
        ],
    )
    path.write_text(
        "tasks:\n"
        "  cat: {labels: ['no', 'yes'], train: new.jsonl}\n"
        "train: {max_length: 30}\n"
        "grow:\n"
        "  start: xavier\n"
        "  label_map:\n"
        "    same: {'no': x}\n"
    )
    code, told = said(capsys, "task", "add", done / "run", path, "--out", tmp_path / "b2")
    assert_refused(
        code,
        told,
        [
            "line 2, tasks.cat: the bundle has a task of this name",
            "line 3, train.max_length: 30;",
            "line 5, grow.start: 'xavier' samples the vector of a task",
            "line 7, grow.label_map.same: 'yes' is missing",
        ],
    )


def test_mistakes(done, capsys, tmp_path):
    good = task_file(done)
    two = task_file(
        done, "two.yaml", tasks={n: {"labels": ["no", "yes"], "train": "new.jsonl"} for n in ("n", "m")}
    )
    out = ["--out", tmp_path / "b2"]
    bundle = done / "run"
    for arguments, message in (
        (["add", done / "nothing", good, *out], "holds no bundle"),
        (["add", bundle, done / "no.yaml", *out], "there is no task file"),
        (
            ["add", bundle, two, *out],
            "tasks: expected one task; found n, m: keep one in the file (of a suite: only: [n])",
        ),
        (["add", bundle, good, *out, "--only", "everything"], "grow.only: expected 'task', 'head' or 'all'"),
        (["add", bundle, good, *out, "--fraction", 0], "grow.fraction: expected greater than 0"),
        (["add", bundle, good, "grow.fractoin=1", *out], "no such setting; did you mean 'fraction'?"),
        (["add", bundle, good, *out, "--device", "cuda:99"], "device 'cuda:99' cannot be used"),
        (["add", bundle, good, "--out", bundle], "to change it in place type --out"),
        (["retrain", bundle, "cta", good, *out], "has no task 'cta'; did you mean 'cat'?"),
        (["retrain", bundle, "cat", good, *out], "tasks.new: expected 'cat'"),
        (["remove", bundle, "cta", *out], "has no task 'cta'; did you mean 'cat'?"),
        (["copy", bundle, "cat", bundle], "already has a task 'cat'; choose a different name: --as NAME"),
    ):
        code, told = said(capsys, "task", *arguments)
        assert_refused(code, told, [message])
    assert not (tmp_path / "b2").exists()


def test_wrong_rows_are_told_before_the_encoder_is_loaded(done, capsys, tmp_path, monkeypatch):
    write_rows(done / "bad.jsonl", [{"text": "a", "label": "maybe"}])
    bad = task_file(done, "bad.yaml", tasks={"new": {"labels": ["no", "yes"], "train": "bad.jsonl"}})
    moved = shutil.move(done / "encoder", done / "away")
    try:
        code, told = said(capsys, "task", "add", done / "run", bad, "--out", tmp_path / "b2")
        assert_refused(code, told, ["'maybe'", "bad.jsonl"])
        good = task_file(done)
        add = ["task", "add", done / "run", good, "--out", tmp_path / "b2"]
        assert said(capsys, *add)[0] == 2
        assert said(capsys, *add, "--encoder", moved)[0] == 0
    finally:
        shutil.move(done / "away", done / "encoder")
