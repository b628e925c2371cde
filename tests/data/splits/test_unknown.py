"""Labels that a task does not have are listed once per file with hints; missing ones may be dropped."""

from __future__ import annotations

import csv
import json
import math

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from weft.data import collect_split, load_split
from weft.data.checks.check import check
from weft.errors import WeftError
from weft.tasks.task import Task


def problems(labels, values, **settings):
    rows = [{"text": "a", "label": value} for value in values]
    task = Task("films", files={"train": rows}, **({"labels": labels} if labels else {}), **settings)
    return collect_split(task, "train")[1]


def test_all_unknown_labels_are_listed_once_with_counts():
    values = ["pos ", "neg"] * 3 + ["Pos", "POS", "Pos", "maybe", " neg", "neg\u200b", "pos"]
    (problem,) = problems(("neg", "pos"), values)
    assert (problem.row, problem.column) == (None, "label")
    first, *lines = problem.message.split("\n")
    assert first == "6 unknown labels in 9 rows; expected one of neg, pos"
    assert [line.strip() for line in lines] == [
        "'pos ' with a trailing space, 3 rows, first row 1: did you mean 'pos'?",
        "'Pos' in different capitals, 2 rows, first row 7: did you mean 'pos'?",
        "'POS' in different capitals, 1 row, first row 8: did you mean 'pos'?",
        "'maybe', 1 row, first row 10",
        "' neg' with a leading space, 1 row, first row 11: did you mean 'neg'?",
        "'neg\\u200b' with an invisible character, 1 row, first row 12: did you mean 'neg'?",
        "Correct the file, or replace them: {path: FILE, options: {values: {label: {'pos ': 'pos', "
        "'Pos': 'pos', 'POS': 'pos', ' neg': 'neg', 'neg\\u200b': 'neg'}}}}",
    ]


@pytest.mark.parametrize(
    ("labels", "values", "words"),
    [
        (
            ("neg", "pos"),
            ["positve", "pos"],
            "row 1, column 'label': found 'positve'; expected one of neg, pos",
        ),
        (("negative", "positive"), ["positve"], "did you mean 'positive'?"),
        ((), ["1", "2", "3"], 'ids count from 1, the task\'s from 0. Write: labels: ["1", "2", "3"]'),
        ((), [1.0, 2.0, 3.0, 3.0], "found '3.0' in 2 rows, first row 3; expected one of 0, 1, 2; the file"),
        (("1", "2", "3"), [0, 1, 2], 'ids count from 0, the task\'s from 1. Write: labels: ["0", "1", "2"]'),
        (("a", "b", "c"), [1, 2, 3, 3], "values: {label: {1: 'a', 2: 'b', 3: 'c'}}"),
        (("0", "1"), [True, False], 'write: labels: ["false", "true"]'),
        (("neg", "pos"), [-1, -1, "pos"], 'leave such rows out with drop: ["-1"] in the task'),
        (("neg", "pos"), ["N/A", "N/A"], "drop: ['N/A']"),
        (
            ("neg", "pos"),
            [None, "pos"],
            "row 1, column 'label': found None; the label is missing; to leave such",
        ),
        (
            ("neg", "pos"),
            ["", None, "pos"],
            "the label is missing in 2 rows, first row 1; to leave such rows out",
        ),
        (("neg", "pos"), [None, "pos"], "write drop=[None] in the task"),
    ],
)
def test_hints(labels, values, words):
    settings = {} if labels else {"size": 3}
    (problem,) = problems(labels, values, **settings)
    assert words in str(problem)


def test_ids_are_not_called_shifted_without_a_reason():
    (problem,) = problems((), [0, 1, 2, 3], size=3)
    assert "count from" not in problem.message


def test_many_unknown_labels_are_counted():
    (problem,) = problems(("a", "b"), [f"text {number}" for number in range(30)])
    assert problem.message.startswith("30 unknown labels in 30 rows; expected one of a, b\n")
    assert problem.message.endswith("\n    … and 20 more")


@pytest.mark.parametrize(
    ("kind", "value"), [("tag", ["O", "B-PER "]), ("multilabel", ["O", "b-x"]), ("multilabel", "O, b-x")]
)
def test_lists_of_labels(kind, value):
    texts = {"text": ["a", "b"] if kind == "tag" else "a", "label": value}
    task = Task("t", kind, labels=("O", "B-PER", "B-X"), files={"train": [texts, texts]})
    (problem,) = collect_split(task, "train")[1]
    assert "in 2 rows, first row 1" in problem.message
    assert "did you mean 'B-" in problem.message


def write(path, rows, columns):
    """Write rows in a file of the path's format; None is a missing key, null or an empty cell."""
    if path.suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(rows, schema=columns), path)
    elif path.suffix == ".jsonl":
        # the first missing value is null, the others have no key
        lines = [{k: v for k, v in row.items() if v is not None or at == 1} for at, row in enumerate(rows)]
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    else:
        with path.open("w", newline="") as file:
            writer = csv.DictWriter(file, columns.names, delimiter="\t" if path.suffix == ".tsv" else ",")
            writer.writeheader()
            writer.writerows(rows)
    return path


@pytest.mark.parametrize("ending", ["csv", "tsv", "jsonl", "parquet"])
@pytest.mark.parametrize(
    ("kind", "label", "settings"),
    [
        ("classify", "yes", {"labels": ("no", "yes")}),
        ("regress", "1.5", {}),
        ("multilabel", "yes", {"labels": ("no", "yes")}),
        ("similarity", "1", {"texts": ("text", "other")}),
        ("choose", "1", {"choices": ("text", "other")}),
    ],
)
def test_rows_without_a_label_are_dropped(tmp_path, ending, kind, label, settings):
    labels = [label, None, label, None, None]
    rows = [{"text": "a", "other": "b", "label": value} for value in labels]
    columns = pa.schema([(name, pa.string()) for name in ("text", "other", "label")])
    file = write(tmp_path / f"a.{ending}", rows, columns)
    task = Task("t", kind, files={"train": file}, drop=(None,), **settings)
    report = check([task])
    (facts,) = report.facts
    assert (facts.rows, facts.dropped) == (2, 3)
    assert f"{facts.rows} rows and 3 dropped" in report.lines()[0]
    assert load_split(task, "train").row.tolist() == ([1, 3] if ending in ("jsonl", "parquet") else [2, 4])
    if kind != "multilabel":  # an empty cell there means that no label holds
        without = Task("t", kind, files={"train": file}, **settings)
        with pytest.raises(WeftError, match=r"missing in 3 rows, first (line|row) \d; .*drop=\[None\]"):
            load_split(without, "train")


def test_a_list_without_labels_is_not_dropped():
    rows = [{"text": "a", "label": label} for label in ([], ["yes"], None, math.nan)]
    task = Task("t", "multilabel", labels=("no", "yes"), files={"train": rows}, drop=(None,))
    assert load_split(task, "train").labels == [(), (1,)]


def test_questions_without_an_answer_are_dropped(tmp_path):
    answers = {"text": ["cat"], "answer_start": [4]}
    qas = [
        {
            "id": "1",
            "question": "Who?",
            "answers": [{"text": "cat", "answer_start": 4}],
            "is_impossible": False,
        },
        {"id": "2", "question": "Why?", "answers": [], "is_impossible": True},
    ]
    file = tmp_path / "a.json"
    file.write_text(json.dumps({"data": [{"title": "", "paragraphs": [{"context": "The cat", "qas": qas}]}]}))
    task = Task(
        "q", "span", texts=("question", "context"), label="answers", files={"train": file}, drop=(None,)
    )
    split = load_split(task, "train")
    assert (len(split), split.dropped) == (1, 1)
    assert split.labels == [[(answers["text"][0], 4)]]


def test_a_test_split_without_labels_is_not_dropped():
    rows = [{"text": "a", "label": None}, {"text": "b", "label": None}]
    task = Task("t", labels=("no", "yes"), files={"test": rows}, drop=(None,))
    assert len(load_split(task, "test")) == 2
