"""Files that a run was trained on are predicted as they are, in whatever way its run file reads them."""

from __future__ import annotations

import json
import random

import pytest
import yaml

from tests.support.predicting import predict
from tests.support.tiny_run import save_encoder, sentence
from weft.cli import run
from weft.workflows.prediction_source import KnownFile, known_file

QUESTION = {"id": "q1", "question": "the cat", "answers": [{"text": "dog", "answer_start": 2}]}
SQUAD = {"data": [{"title": "t", "paragraphs": [{"context": "a dog sees", "qas": [QUESTION, QUESTION]}]}]}


@pytest.fixture(scope="module")
def done(tmp_path_factory, token_cache):
    """One task for each way of reading a file."""
    folder = tmp_path_factory.mktemp("sources")
    save_encoder(folder / "encoder")
    draw = random.Random(3)
    texts = [(sentence(draw), ("no", "yes")[n % 2]) for n in range(12)]
    (folder / "odd.csv").write_bytes(
        "\ufeffNr;Kommentar;Urteil\n".encode()
        + "".join(f'{n};"{t}; é";{y}\n' for n, (t, y) in enumerate(texts)).encode()
    )
    (folder / "latin.csv").write_bytes("".join(f"{t} ö|{y}\n" for t, y in texts).encode("latin-1"))
    (folder / "plain.tsv").write_text("text\tlabel\n" + "".join(f"{t}\t{y}\n" for t, y in texts))
    sentences = "\n".join("".join(f"{word} O\n" for word in t.split()) for t, _ in texts)
    (folder / "tags.conll").write_text(sentences)
    (folder / "squad.json").write_text(json.dumps(SQUAD, indent=1))
    rows = [{"a": {"text": t}, "keep": n % 3, "label": y} for n, (t, y) in enumerate(texts)]
    (folder / "nested.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    labels = {"labels": ["no", "yes"]}
    odd = {"path": "odd.csv", "columns": {"text": "Kommentar", "label": "Urteil"}}
    latin = {"path": "latin.csv", "options": {"header": ["text", "label"], "delimiter": "|"}}
    nested = {"path": "nested.jsonl", "columns": {"text": "a.text"}, "options": {"where": {"keep": 1}}}
    tasks = {
        "odd": {**labels, "train": odd, "validation": odd},
        "latin": {**labels, "train": latin, "validation": latin},
        "plain": {**labels, "train": "plain.tsv", "validation": "plain.tsv"},
        "tags": {"kind": "tag", "texts": ["tokens"], "label": "ner_tags", "labels": ["O", "B-x", "I-x"]},
        "squad": {"kind": "span", "texts": ["question", "context"], "label": "answers"},
        "nested": {**labels, "train": nested, "validation": nested},
    }
    tasks["tags"] |= {"train": "tags.conll", "validation": "tags.conll"}
    tasks["squad"] |= {"train": "squad.json", "validation": "squad.json"}
    settings = {"steps": 1, "batch_size": 2, "max_length": 24, "lr": 0.01}
    run_file = {"encoder": "encoder", "method": "frozen", "tasks": tasks, "train": settings}
    (folder / "run.yaml").write_text(yaml.safe_dump(run_file, sort_keys=False))
    assert run(["train", str(folder / "run.yaml"), "--out", str(folder / "out")]) == 0
    return folder


FILES = {
    "odd": ("odd.csv", 12),
    "latin": ("latin.csv", 12),
    "plain": ("plain.tsv", 12),
    "tags": ("tags.conll", 12),
    "squad": ("squad.json", 2),
    "nested": ("nested.jsonl", 4),
}


@pytest.mark.parametrize("task", FILES)
def test_the_files_of_a_run(done, capsys, task):
    file, count = FILES[task]
    for arguments in ((), ("--task", task)):
        code, found, reported = predict(capsys, done / "out", done / file, *arguments)
        assert (code, [row["task"] for row in found]) == (0, [task] * count), reported


def test_the_texts_are_read_in_the_right_encoding(done, capsys):
    for task, letter in (("odd", "; é"), ("latin", " ö")):
        found = predict(capsys, done / "out", done / FILES[task][0], "--with-input")[1]
        column = {"odd": "Kommentar", "latin": "text"}[task]
        assert all(row["input"][column].endswith(letter) for row in found)


def test_another_file_has_the_columns_of_the_tasks_files(done, capsys):
    (done / "new.csv").write_text("Kommentar,x\na cat,1\n")
    code, found, _ = predict(capsys, done / "out", done / "new.csv", "--task", "odd")
    assert (code, len(found)) == (0, 1)
    assert predict(capsys, done / "out" / "bundle", done / "new.csv", "--task", "odd")[0] == 2
    texts = ("--task", "odd", "--texts", "Kommentar")
    assert predict(capsys, done / "out" / "bundle", done / "new.csv", *texts)[:2] == (0, found)


def test_formats_that_are_read_whole_need_a_task(done, capsys):
    (done / "more.conll").write_text("the O\ncat O\n\na O\n")
    code, _, reported = predict(capsys, done / "out", done / "more.conll")
    assert code == 2
    assert "names no task; type: --task NAME" in reported
    code, found, _ = predict(capsys, done / "out", done / "more.conll", "--task", "tags", "--with-input")
    assert (code, found[0]["input"]["tokens"]) == (0, ["the", "cat"])


def test_a_bundle_and_moved_data(done, tmp_path):
    assert known_file(done / "out" / "bundle", done / "odd.csv", "odd") == KnownFile()
    (tmp_path / "run.yaml").write_text("tasks: [")
    assert known_file(tmp_path, done / "odd.csv", None) == KnownFile()
