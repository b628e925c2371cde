"""Runs on rows in memory: the same weights as from files, resuming, evaluation, and replacing a run."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pyarrow as pa
import pytest
import torch
import yaml

import weft
from tests.support.tiny_run import breaking_off, rows_of, save_encoder, write_rows
from weft.data import load_split, tokenize
from weft.errors import WeftError, command_line
from weft.training.run.resume import differences

pytestmark = pytest.mark.usefixtures("token_cache")

SETTINGS = weft.Training(steps=8, batch_size=8, max_length=24, lr=1e-2, checkpoint_every=2)
TRAIN, VALIDATION = rows_of("cat", 40, 1), rows_of("cat", 12, 2)


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    return save_encoder(tmp_path_factory.mktemp("encoder") / "encoder")


def table(rows):
    return pa.Table.from_pylist(rows)


def in_memory(train=TRAIN, validation=VALIDATION, made=table):
    return weft.Task("cat", data={"train": made(train), "validation": made(validation)})


def train(encoder, task, out, **settings):
    model = weft.Model(str(encoder), [task], "lora", seed=1)
    return model, weft.train(model, SETTINGS, out, progress=False, **settings)


def test_it_is_the_run_of_the_same_rows_in_files(encoder, tmp_path):
    """Byte-equal tokens under one key of the cache, bit-equal weights, equal scores."""
    files = {
        "train": write_rows(tmp_path / "train.jsonl", TRAIN),
        "validation": write_rows(tmp_path / "validation.jsonl", VALIDATION),
    }
    from_files = weft.Task("cat", labels=("no", "yes"), files=files)
    first, run = train(encoder, from_files, tmp_path / "files")
    for number, made in enumerate((table, list)):
        task = in_memory(made=made)
        assert task == from_files
        for split in files:
            a, b = (tokenize(load_split(t, split), first.tokenizer, 24) for t in (task, from_files))
            assert a.key == b.key
            np.testing.assert_array_equal(a.flat("ids"), b.flat("ids"))
        second, again = train(encoder, task, tmp_path / f"memory {number}")
        assert again.metrics == run.metrics
        for name, tensor in first.state_dict().items():
            assert torch.equal(tensor, second.state_dict()[name]), name
        tasks = "bundle/tasks/cat.safetensors"
        assert (again.folder / tasks).read_bytes() == (run.folder / tasks).read_bytes()


def test_what_the_run_records(encoder, tmp_path):
    task = in_memory()
    model, run = train(encoder, task, tmp_path / "out")
    (entry,) = yaml.safe_load((run.folder / "run.yaml").read_text())["tasks"]
    assert entry["labels"] == ["no", "yes"]
    assert entry["train"]["rows_in_memory"] == 40
    assert len(entry["train"]["sha256"]) == 64
    # the finished run and the model know the data; the folder does not
    scores = weft.evaluate(run, progress=False)
    assert scores["tasks"] == weft.evaluate(model, progress=False)["tasks"] == run.metrics["tasks"]
    assert weft.evaluate(run.folder, tasks=task, progress=False)["tasks"] == run.metrics["tasks"]
    assert weft.evaluate(run, progress=False, baselines=True)["baselines"]["majority"]["cat"]
    with pytest.raises(WeftError, match=r"read 12 rows from memory .*tasks=\[weft.Task\(…, data=…\)\]"):
        weft.evaluate(run.folder, progress=False)
    with command_line(), pytest.raises(WeftError, match="write them to a file and name it"):
        weft.evaluate(run.folder, progress=False)
    assert not weft.check(run.folder, progress=False).ok
    loaded = weft.load(run.folder)
    assert loaded.predict("cat", "the cat") == model.predict("cat", "the cat")
    with pytest.raises(WeftError, match=r"have no data; .*weft.Task\(…, data=…\)"):
        weft.evaluate(loaded, progress=False)


def test_a_run_of_files_and_memory_is_evaluated_on_its_files(encoder, tmp_path, capsys):
    rows = rows_of("count", 9, 3)
    files = {split: write_rows(tmp_path / f"{split}.jsonl", rows) for split in ("train", "validation")}
    model = weft.Model(str(encoder), [in_memory(), weft.Task("count", "regress", files=files)], "lora")
    run = weft.train(model, SETTINGS, tmp_path / "out", progress=False)
    assert set(weft.evaluate(run, progress=False)["tasks"]) == {"cat", "count"}
    assert set(weft.evaluate(run.folder)["tasks"]) == {"count"}
    assert "not evaluated: cat: the run read 12 rows from memory" in capsys.readouterr().err


def test_it_resumes_with_the_same_rows_only(encoder, tmp_path):
    straight, _ = train(encoder, in_memory(), tmp_path / "straight")
    out = tmp_path / "out"
    with breaking_off(5), pytest.raises(KeyboardInterrupt):
        train(encoder, in_memory(), out)
    for rows, message in (
        (TRAIN[:-1], "tasks.cat.train: 40 rows in memory then, 39 now"),
        (
            [{**TRAIN[0], "text": "a dog"}, *TRAIN[1:]],
            "train: 40 rows in memory then and now, but not the same",
        ),
    ):
        with pytest.raises(WeftError, match=message):
            train(encoder, in_memory(rows), out, resume=True)
    # the same rows in another object
    resumed, _ = train(encoder, in_memory(made=list), out, resume=True)
    for name, tensor in straight.state_dict().items():
        assert torch.equal(tensor, resumed.state_dict()[name]), name


def test_runs_of_earlier_versions_have_no_record(encoder, tmp_path):
    _, run = train(encoder, in_memory(), tmp_path / "out")
    now = json.loads(json.dumps(yaml.safe_load((run.folder / "run.yaml").read_text())))
    before = json.loads(json.dumps(now))
    for split in ("train", "validation"):
        del before["tasks"][0][split]
    assert differences(before, now) == []
    before["tasks"][0]["train"] = "train.csv"
    assert len(differences(before, now)) == 1


def test_one_frame_alone_says_what_validates(encoder, tmp_path, capsys):
    model = weft.Model(str(encoder), [weft.Task("cat", data=table(TRAIN))], "lora")
    run = weft.train(model, SETTINGS, tmp_path / "out")
    assert "4 of 40 training rows are used for validation (cut 0.1" in " ".join(
        capsys.readouterr().err.split()
    )
    assert run.metrics["rows"] == {"cat": 4}


def test_overwrite_replaces_a_run_and_nothing_else(encoder, tmp_path):
    out = tmp_path / "out"
    train(encoder, in_memory(), out, overwrite=True)  # there is none yet
    with pytest.raises(WeftError, match=r"holds a finished run; .*overwrite=True"):
        train(encoder, in_memory(), out)
    (out / "metrics.json").unlink()
    with pytest.raises(WeftError, match=r"continue it with resume=True, or replace it with overwrite=True"):
        train(encoder, in_memory(), out)
    (out / "log.jsonl").write_text("old")
    (out / ".bundle-x").mkdir()
    _, run = train(encoder, in_memory(), out, overwrite=True)
    assert {p.name for p in out.iterdir()} == {
        "run.yaml",
        "log.jsonl",
        "metrics.json",
        "checkpoints",
        "bundle",
    }
    assert "old" not in (out / "log.jsonl").read_text()
    assert weft.evaluate(run, progress=False)["tasks"] == run.metrics["tasks"]
    with pytest.raises(WeftError, match="resume=True and overwrite=True; expected one"):
        train(encoder, in_memory(), out, resume=True, overwrite=True)


def test_overwrite_deletes_nothing_before_the_data_is_read(encoder, tmp_path):
    _, run = train(encoder, in_memory(), tmp_path / "out")
    before = {p: p.read_bytes() for p in run.folder.rglob("*") if p.is_file()}
    with pytest.raises(WeftError, match="the text is missing"):
        train(encoder, in_memory([*TRAIN, {"text": None, "label": "no"}]), run.folder, overwrite=True)
    assert before == {p: p.read_bytes() for p in run.folder.rglob("*") if p.is_file()}


@pytest.mark.parametrize(
    ("what", "message"),
    [
        ("file", "is a file"),
        ("foreign", "holds no run"),
        ("more", "more than a run: notes.txt"),
        ("link", "is a link"),
    ],
)
def test_overwrite_refuses_what_is_not_a_run(encoder, tmp_path, what, message):
    out = tmp_path / "out"
    if what == "file":
        out.write_text("mine")
    elif what == "foreign":
        out.mkdir()
        (out / "thesis.tex").write_text("mine")
    else:
        train(encoder, in_memory(), out)
    if what == "more":
        (out / "notes.txt").write_text("mine")
    if what == "link":
        out.rename(tmp_path / "real")
        out.symlink_to(tmp_path / "real")
    with pytest.raises(WeftError, match=message):
        train(encoder, in_memory(), out, overwrite=True)
    assert out.exists()
    assert what != "more" or (out / "notes.txt").read_text() == "mine"


def test_overwrite_keeps_the_encoder_of_the_model(encoder, tmp_path):
    moved = tmp_path / "moved"
    shutil.copytree(encoder, moved)
    _, run = train(moved, in_memory(), tmp_path / "out", with_encoder=True)
    shutil.rmtree(moved)
    model = weft.load(run.folder)
    again = weft.Model(model.encoder_source.source, [in_memory()], "lora")
    with pytest.raises(WeftError, match="holds the encoder of this model"):
        weft.train(again, SETTINGS, run.folder, progress=False, overwrite=True)
    assert weft.load(run.folder)
