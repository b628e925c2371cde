"""Drafts of tasks."""

from __future__ import annotations

import csv
import json

import pytest

from weft.data.drafting.draft import draft_task
from weft.data.drafting.grouping import group_files
from weft.errors import WeftError

N = 60
TEXTS = [f"a text of number {n} with some words" for n in range(N)]


def write(folder, name, **columns):
    file = folder / name
    with file.open("w", newline="", encoding="utf-8") as out:
        writer = csv.writer(out)
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))
    return file


def draft(*files, **options):
    (group,) = group_files(files)
    return draft_task(group, name_path=lambda path: path.name, **options)


def labels(*names, count=N):
    return [names[n % len(names)] for n in range(count)]


def test_a_plain_file(tmp_path):
    found = draft(write(tmp_path, "x.csv", id=range(N), text=TEXTS, label=labels("b", "a")))
    assert found.settings == {
        "kind": "classify",
        "texts": ["text"],
        "label": "label",
        "labels": ["a", "b"],
        "train": "x.csv",
        "cut": 0.2,
    }
    assert (found.rows, found.labels, found.unsure, found.notes) == (
        {"train": "60"},
        "2: a 50 %, b 50 %",
        [],
        [],
    )
    assert "columns not used: id" in found.about


def test_splits_of_several_files(tmp_path):
    files = [
        write(tmp_path, f"x_{split}.csv", text=TEXTS, label=labels("a", "b")) for split in ("train", "dev")
    ]
    found = draft(*files, write(tmp_path, "x_test.csv", text=TEXTS))
    assert {key: found.settings[key] for key in ("train", "validation", "test")} == {
        "train": "x_train.csv",
        "validation": "x_dev.csv",
        "test": "x_test.csv",
    }
    assert "cut" not in found.settings


def test_a_column_of_splits(tmp_path):
    split = labels("train", "train", "dev", "test")
    found = draft(write(tmp_path, "x.csv", text=TEXTS, label=labels("a", "b", "c"), split=split))
    assert found.settings["validation"] == {"path": "x.csv", "options": {"where": {"split": "dev"}}}
    assert found.rows == {"train": "30", "validation": "15", "test": "15"}
    assert "cut" not in found.settings


def test_folds_are_reported(tmp_path):
    found = draft(write(tmp_path, "x.csv", text=TEXTS, label=labels("a", "b"), fold=labels(0, 1, 2)))
    assert found.settings["label"] == "label"
    assert "column 'fold'" in found.notes[0]


def test_rows_without_label_or_text_are_left_out(tmp_path):
    texts = ["", *TEXTS[1:]]
    found = draft(write(tmp_path, "x.csv", text=texts, label=["a", "b", "", *labels("a", "b")[3:]]))
    assert found.settings["drop"] == [None]
    assert found.settings["train"] == {"path": "x.csv", "options": {"filled": ["text"]}}
    assert "1 rows without a text" in found.comments["train"]


def test_a_test_file_with_foreign_labels_is_left_out(tmp_path):
    train = write(tmp_path, "x_train.csv", text=TEXTS, label=labels("a", "b"))
    found = draft(train, write(tmp_path, "x_test.csv", text=TEXTS, label=labels("?", "??")))
    assert "test" not in found.settings
    assert "are not those of the training file" in found.notes[0]


@pytest.mark.parametrize("column", [{}, {"label": labels("-1")}, {"label": labels("")}])
def test_a_test_file_may_have_no_labels(tmp_path, column):
    train = write(tmp_path, "x_train.csv", text=TEXTS, label=labels(0, 1, 2))
    found = draft(train, write(tmp_path, "x_test.csv", text=TEXTS, **column))
    assert found.settings["test"] == "x_test.csv"
    assert found.settings["labels"] == ["0", "1", "2"]
    assert "drop" not in found.settings


def test_a_validation_file_without_the_columns_is_left_out(tmp_path):
    train = write(tmp_path, "x_train.csv", text=TEXTS, label=labels("a", "b"))
    found = draft(train, write(tmp_path, "x_dev.csv", body=TEXTS, label=labels("a", "b")))
    assert found.settings["cut"] == 0.2
    assert "x_dev.csv has no column 'text'" in found.notes[0]


def test_regression_over_all_splits(tmp_path):
    train = write(tmp_path, "x_train.csv", text=TEXTS, score=[n / 7 for n in range(N)])
    found = draft(train, write(tmp_path, "x_dev.csv", text=TEXTS, score=[9.5 - n / 7 for n in range(N)]))
    assert (found.settings["kind"], found.settings["range"]) == ("regress", [0, 10])


def test_separated_labels(tmp_path):
    found = draft(write(tmp_path, "x.csv", text=TEXTS, tags=labels("love|sea", "sea", "war|love", "")))
    assert (found.settings["kind"], found.settings["labels"]) == ("multilabel", ["love", "sea", "war"])
    assert found.settings["train"] == {"path": "x.csv", "options": {"separated": {"tags": "|"}}}
    assert "drop" not in found.settings  # no label is a label set


def test_answers_are_asked_only_if_a_guess_is_not_certain(tmp_path):
    file = write(tmp_path, "x.csv", text=TEXTS, stars=labels(1, 2, 3, 4, 5))
    asked = []

    def choose(question):
        asked.append((question.about, question.guess, question.others))
        return "regress"

    found = draft(file, choose=choose)
    assert asked == [("kind", "classify", ("regress",))]
    assert (found.settings["kind"], found.settings["range"]) == ("regress", [1, 5])
    assert draft(file).settings["kind"] == "classify"


def test_answers_given_beforehand(tmp_path):
    file = write(
        tmp_path, "x.csv", a=TEXTS, b=TEXTS, colour=labels("red", "blue"), shape=labels("x", "y", "z")
    )
    found = draft(file, fixed={"texts": "b", "label": "shape"})
    assert (found.settings["texts"], found.settings["label"], found.unsure) == (["b"], "shape", [])
    with pytest.raises(WeftError, match="label: found 'shap'; did you mean 'shape'"):
        draft(file, fixed={"label": "shap"})


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"id": range(N), "label": labels("a", "b")}, "found no column of texts; the columns are: id"),
        ({"text": TEXTS, "id": range(N)}, "found no column of labels.*\n.*--label COLUMN"),
    ],
)
def test_no_text_and_no_label(tmp_path, columns, message):
    with pytest.raises(WeftError, match=message):
        draft(write(tmp_path, "x.csv", **columns))


def test_one_label_is_refused(tmp_path):
    with pytest.raises(WeftError, match=r"found 1 label \['a'\]; expected two or more"):
        draft(write(tmp_path, "x.csv", text=TEXTS, label=labels("a")), fixed={"label": "label"})


def test_questions_without_an_answer_are_left_out(tmp_path):
    qas = [
        {"id": str(n), "question": f"what is number {n}", "answers": [{"text": "a", "answer_start": 0}]}
        for n in range(9)
    ] + [{"id": "x", "question": "what is it", "is_impossible": True, "answers": []}]
    file = tmp_path / "q.json"
    file.write_text(
        json.dumps({"data": [{"paragraphs": [{"context": "a long context of words", "qas": qas}]}]})
    )
    found = draft(file)
    assert (found.settings["kind"], found.settings["drop"], found.settings["group"]) == (
        "span",
        [None],
        ["context"],
    )
