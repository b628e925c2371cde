"""Rows in memory: every kind of object gives the same rows as the same rows in a file."""

from __future__ import annotations

import copy
import csv
import json
import pickle
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.frames import OBJECTS, DataSet, frame_or_skip
from weft.data.splits.entry import as_run_file
from weft.data.splits.split import load_split
from weft.data.splits.splits import prepare
from weft.errors import WeftError
from weft.tasks.in_memory import RowsRecord, as_rows, rows_or_none
from weft.tasks.task import Task

ROWS = [
    {"text": "A fine film.", "sentiment": "good", "stars": 5},
    {"text": "Too long.", "sentiment": "bad", "stars": 1},
    {"text": "Fine, fine.", "sentiment": "good", "stars": 4},
]


def task(data, **settings):
    return Task("reviews", data=data, label="sentiment", **settings)


@pytest.mark.parametrize("made", OBJECTS)
def test_every_object_gives_the_same_rows(made):
    found = load_split(task({"train": OBJECTS[made](ROWS)}), "train")
    assert found.texts == [(row["text"],) for row in ROWS]
    assert found.labels == [1, 0, 1]
    assert found.row.tolist() == [0, 1, 2]
    assert (found.source, found.unit) == ("data['train']", "index")


texts = st.text(st.characters(codec="utf-8", exclude_categories=["Cs", "Cc"]), min_size=1).filter(str.strip)
labels = st.sampled_from(["a", "b", "a, b", '"', "ä"])


@given(st.lists(st.tuples(texts, labels), min_size=1, max_size=8), st.sampled_from(sorted(OBJECTS)))
def test_an_object_and_the_same_rows_in_a_file_are_equal(tmp_path_factory, rows, made):
    """Texts, labels and so the key of the token cache: jsonl, csv and every kind of object."""
    folder = tmp_path_factory.mktemp("files")
    dicts = [{"text": text, "sentiment": label} for text, label in rows]
    with (folder / "rows.jsonl").open("w", encoding="utf-8") as out:
        out.writelines(json.dumps(row) + "\n" for row in dicts)
    with (folder / "rows.csv").open("w", encoding="utf-8", newline="") as out:
        writer = csv.DictWriter(out, ["text", "sentiment"])
        writer.writeheader()
        writer.writerows(dicts)
    names = ("a", "b", "a, b", '"', "ä")
    expected = load_split(task(dicts, labels=names), "train")
    sources = [{"data": OBJECTS[made](dicts)}, {"files": {"train": folder / "rows.jsonl"}}]
    for source in [*sources, {"files": {"train": folder / "rows.csv"}}]:
        found = load_split(Task("reviews", label="sentiment", labels=names, **source), "train")
        assert found.texts == expected.texts
        assert found.labels == expected.labels


@pytest.mark.parametrize("made", OBJECTS)
def test_the_record_is_of_the_columns_that_are_read(made):
    def record(rows, **settings):
        return as_run_file(task(OBJECTS[made](rows), **settings))["train"]

    first = record(ROWS)
    assert first == record(copy.deepcopy(ROWS))
    assert first["rows_in_memory"] == 3
    assert first == as_run_file(task(ROWS))["train"]  # the same rows in a list
    assert first == record([{**row, "stars": 0} for row in ROWS])  # a column that the task does not read
    assert first != record([*ROWS[:2], {**ROWS[2], "text": "Fine."}])
    assert first != record(ROWS[::-1])
    assert RowsRecord.of(first) == RowsRecord(3, first["sha256"])
    assert RowsRecord.of({"path": "a.csv"}) is None


def test_an_index_of_pandas_names_the_row():
    frame = frame_or_skip([*ROWS, {"text": None, "sentiment": "good"}, {"text": "x", "sentiment": None}])
    frame.index = [10, 20, 30, 40, 50]
    with pytest.raises(WeftError) as wrong:
        load_split(task({"train": frame}), "train")
    assert "2 problems in data['train']\n" in str(wrong.value)
    assert "index 40, column 'text': found None; the text is missing" in str(wrong.value)
    assert "index 50, column 'sentiment': found None; the label is missing" in str(wrong.value)
    assert "drop=[None]" in str(wrong.value)
    frame.index = list("vwxyz")
    with pytest.raises(WeftError, match="index 'y', column 'text'"):
        load_split(task({"train": frame}), "train")
    frame.index = [0, 1, 2, 0, 1]  # after pandas.concat
    with pytest.raises(WeftError, match=r"index 0 \(position 3\), column 'text'"):
        load_split(task({"train": frame}), "train")


@pytest.mark.parametrize("missing", [None, float("nan"), "", np.float64("nan")])
def test_missing_labels_are_dropped_on_request(missing):
    rows = [*ROWS, {"text": "No label.", "sentiment": missing}]
    with pytest.raises(WeftError, match=r"index 3, column 'sentiment'.*the label is missing"):
        load_split(task(rows), "train")
    found = load_split(task(rows, drop=[None]), "train")
    assert (len(found), found.dropped) == (3, 1)
    # other labels can be dropped beside it, and are no labels of the task
    both = task(rows, drop=[None, "bad"], labels=["good", "other"])
    assert load_split(both, "train").dropped == 2


def test_columns_of_floats_and_numpy_values():
    frame = frame_or_skip(
        [{"text": "a", "y": 1.0}, {"text": "b", "y": 0.0}, {"text": "c", "y": float("nan")}]
    )
    made = Task("x", data=frame, label="y", drop=[None])
    assert made.labels == ("0", "1")
    assert load_split(made, "train").labels == [1, 0]
    words = Task(
        "t", "tag", data=[{"w": np.array(["a", "b"]), "y": np.array(["O", "B-x"])}], texts="w", label="y"
    )
    assert words.labels == ("B-x", "O")
    assert load_split(words, "train").texts == [("a", "b")]


def test_missing_values_of_pandas():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"text": ["a", "b"], "n": pd.array([1, None], dtype="Int64")})
    assert as_rows(frame, "data", "x").column("n") == [1, None]
    frame["when"] = pd.to_datetime(["2020-01-01", None])
    assert as_rows(frame, "data", "x").column("when")[1] is None
    assert as_rows(frame.astype({"text": "category"}), "data", "x").column("text") == ["a", "b"]


def test_names_of_a_data_set_come_in_the_order_of_its_ids():
    rows = [{"text": "a", "label": 1}, {"text": "b", "label": 0}]
    data = DataSet(rows, names={"label": ["pos", "neg"]})
    made = Task("x", data=data)
    assert made.labels == ("pos", "neg")
    assert load_split(made, "train").labels == [1, 0]
    data = DataSet([{"w": ["a", "b"], "tags": [0, 1]}], names={"tags": ["O", "B-x"]}, nested=True)
    assert Task("x", "tag", data=data, texts="w", label="tags").labels == ("O", "B-x")


def test_the_real_data_sets():
    datasets = pytest.importorskip("datasets")
    label = datasets.ClassLabel(names=["pos", "neg"])
    features = datasets.Features({"text": datasets.Value("string"), "label": label})
    rows = [{"text": "a", "label": 1}, {"text": "b", "label": 0}, {"text": "c", "label": 1}]
    data = datasets.Dataset.from_list(rows, features=features)
    both = datasets.DatasetDict({"train": data, "validation": data.select([1])})
    made = Task("x", data=both)
    assert (made.labels, made.cut) == (("pos", "neg"), None)
    assert load_split(made, "train").texts == [("a",), ("b",), ("c",)]
    assert load_split(Task("x", data=data.with_format("numpy")), "train").labels == [1, 0, 1]
    assert len(load_split(made, "validation")) == 1
    with pytest.raises(WeftError, match="streaming"):
        Task("x", data=data.to_iterable_dataset())


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ("train.csv", r"found 'train.csv'; .*files=\{'train': 'train.csv'\}"),
        ({"train": {"text": ["a"]}}, r"data\['train'\]: found a dict; .*pyarrow.table"),
        ({"dev": ROWS}, r"data has the split 'dev'; expected some of .*'validation'"),
        ({}, "data is empty"),
        ((row for row in ROWS), r"can be read only once; .*write list"),
        (7, "found 7; expected a pandas or polars DataFrame"),
        (["a", "b"], "data, index 0: found 'a'; expected a dict"),
        ([{"text": "a"}], "data has no column 'sentiment', the label; known: text"),
        ([{"text": "a", "sentiment": 0.5}], "found 0.5; .*the kind 'regress'"),
        ([{"text": "a", "sentiment": ["x"]}], "the kind 'multilabel'"),
        ([{"text": "a", "sentiment": "x"}], r"needs two labels or more; found 1; .*labels=\['bad', 'good'\]"),
    ],
)
def test_what_is_refused(data, message):
    with pytest.raises(WeftError, match=message):
        task(data)


def test_data_and_files_exclude_each_other():
    with pytest.raises(WeftError, match="found data and files; expected one of them"):
        task(ROWS, files={"train": "a.csv"})


def test_one_object_alone_is_divided():
    rows = [{"text": f"text {i}", "sentiment": "good" if i % 2 else "bad"} for i in range(40)]
    made = task(rows)
    prepared = prepare(made)
    assert (len(prepared["train"]), len(prepared["validation"])) == (36, 4)
    assert not set(prepared["train"].texts) & set(prepared["validation"].texts)
    assert task(rows, cut=0.5).cut == 0.5
    assert task({"validation": rows}, labels=["bad", "good"]).cut is None


def test_labels_are_sorted_and_numbers_by_value():
    def found(values, kind="classify"):
        return Task("x", kind, data=[{"text": "a", "label": value} for value in values]).labels

    assert found(["b", "a", "b"]) == ("a", "b")
    assert found([10, 9, 2]) == ("2", "9", "10")
    assert found(["10", "9"]) == ("9", "10")
    assert found([True, False]) == ("False", "True")
    assert found([["b", "a"], [], ["c"]], "multilabel") == ("a", "b", "c")
    assert found(["a, b", "c"], "multilabel") == ("a", "b", "c")
    columns = Task("x", "multilabel", data=[{"text": "a", "p": 1, "q": 0}], label=("p", "q"))
    assert columns.labels == ("p", "q")
    assert found([0.5, 2.0], "regress") == ()


def test_one_column_may_be_a_string():
    made = Task("x", texts="text", metrics="accuracy", group="q", id="id", drop="-1", labels=["a", "b"])
    assert (made.texts, made.metrics, made.group, made.id, made.drop) == (
        ("text",),
        ("accuracy",),
        ("q",),
        ("id",),
        ("-1",),
    )


def test_copies_and_further_sets():
    made = task(
        {"train": pa.Table.from_pylist(ROWS)}, also={"more": {"validation": pa.Table.from_pylist(ROWS)}}
    )
    assert "files={'train': 3 rows}" in repr(made)
    again = replace(made, fraction=0.5)
    assert again.files == made.files
    assert again.cut == made.cut
    assert copy.deepcopy(made).files["train"] is made.files["train"]
    assert load_split(pickle.loads(pickle.dumps(made)), "train").labels == [1, 0, 1]
    assert len(made.also["more"]["validation"]) == 3
    # a frame among `files` is read too
    assert len(load_split(replace(made, files={"test": pa.Table.from_pylist(ROWS[:2])}), "test")) == 2
    assert rows_or_none(3, "x") is None
