import sys
from types import ModuleType

import pytest

from tests.data.conftest import write
from weft.data import collect_split, load_split
from weft.errors import WeftError
from weft.tasks import Task

GOOD = [{"text": "a", "label": "no"}, {"text": "b", "label": "yes"}, {"text": "c", "label": "1"}]


def task(rows, split="train", **settings):
    return Task("x", **{"labels": ("no", "yes"), "files": {split: rows}, **settings})


def test_a_split(tmp_path):
    path = write(tmp_path / "train.csv", GOOD)
    x = task(path)
    split = load_split(x, "train")
    assert (split.task, split.split, split.source, len(split)) == (x, "train", str(path), 3)
    assert split.texts == [("a",), ("b",), ("c",)]
    assert split.labels == [0, 1, 1]
    assert split.row.tolist() == [2, 3, 4]


def test_pairs_and_numbers():
    rows = [{"s1": "a", "s2": "b", "x": 1.5, "y": "2"}]
    one = Task("t", "regress", texts=("s2", "s1"), label="x", files={"train": rows})
    assert load_split(one, "train").texts == [("b", "a")]
    assert load_split(one, "train").labels == [1.5]
    two = Task("t", "regress", size=2, texts=("s2",), label=("x", "y"), files={"train": rows})
    assert load_split(two, "train").labels == [[1.5, 2.0]]


@pytest.mark.parametrize("label", [-1, "-1", -1.0, None, "", float("nan")])
def test_a_test_split_may_have_no_labels(label):
    rows = [{"text": "a", "label": label}, {"text": "b", "label": label}]
    assert load_split(task(rows, "test"), "test").labels is None
    with pytest.raises(WeftError, match=r"1 problem .*\n.* 2 rows, first row 1"):
        load_split(task(rows), "train")
    with pytest.raises(WeftError, match=r"column 'label': .*first row 1"):
        load_split(task([*rows, {"text": "c", "label": "yes"}], "test"), "test")


def test_label_columns_that_are_not_there():
    rows = [{"text": "a", "x": 1}]
    assert load_split(task(rows, "test"), "test").labels is None
    with pytest.raises(WeftError, match="column 'label': there is no such column"):
        load_split(task(rows), "train")
    two = Task("t", "regress", size=2, label=("x", "y"), files={"test": rows})
    with pytest.raises(WeftError, match="column 'y': there is no such column, but other label columns"):
        load_split(two, "test")


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ({"text": None, "label": 0}, "column 'text': found None; the text is missing"),
        ({"label": 0}, "column 'text': found None; the text is missing"),
        ({"text": "", "label": 0}, "column 'text': found ''; expected a text that is not empty"),
        ({"text": " \t\n", "label": 0}, r"column 'text': found ' \t\n'; expected a text that is not empty"),
        ({"text": 7, "label": 0}, "column 'text': found 7; expected a string; found int"),
        ({"text": ["a"], "label": 0}, "column 'text': found ['a']; expected a string; found list"),
        ({"text": "\ud83d", "label": 0}, "half of a surrogate pair"),
        ({"text": "a", "label": "maybe"}, "column 'label': found 'maybe'; expected one of no, yes, or an id"),
        ({"text": "a", "label": 2}, "column 'label': found 2; expected one of no, yes"),
        ({"text": "a", "label": 0.5}, "column 'label': found 0.5; expected one of"),
        (
            {"text": "a", "label": -1},
            "found -1; expected one of no, yes, or an id from 0 to 1; −1 usually means",
        ),
        ({"text": "a", "label": 10**400}, "expected one of no, yes, or an id from 0 to 1"),
        ({"text": "a", "label": True}, "found True; expected one of"),
        ({"text": "a", "label": [0]}, "found [0]; expected one of"),
        ({"text": "a", "label": None}, "column 'label': found None; the label is missing"),
        ({"text": "a"}, "column 'label': found None; the label is missing"),
        ({"text": "a", "label": "  "}, "column 'label': found '  '; the label is missing"),
        ({"text": "a" * 500, "label": "b" * 500}, "column 'label': found '" + "b" * 79 + "…"),
    ],
)
def test_wrong_rows(row, words):
    with pytest.raises(WeftError) as error:
        load_split(task([*GOOD, row]), "train")
    lines = str(error.value).split("\n")
    assert lines[0] == "task 'x', split 'train': 1 problem in rows of task 'x', split 'train'"
    assert lines[1].startswith("  row 4, column ")
    assert words in lines[1]
    assert lines[-1].endswith("print(weft.data.check([task]))")


def test_all_problems_at_once(tmp_path):
    rows = [{"text": "" if i % 2 else "a", "label": "?" if i % 3 == 0 else "no"} for i in range(18)]
    path = write(tmp_path / "train.csv", rows)
    with pytest.raises(WeftError) as error:
        load_split(task(path), "train")
    lines = str(error.value).split("\n")
    assert lines[0].endswith(f"10 problems in {path}")
    assert lines[1] == "  column 'label': found '?' in 6 rows, first line 2; expected one of no, yes"
    assert lines[2].startswith("  line 3, column 'text': found ''")
    assert len(lines) == 12
    split, problems = collect_split(task(path), "train")
    assert split.row.tolist() == [4, 6, 10, 12, 16, 18]
    assert len(problems) == 10
    assert problems[0].row is None
    assert problems[0].value == "?"


def test_a_row_may_have_several_problems():
    _, problems = collect_split(
        task([{"a": "", "b": 1, "label": "?"}], texts=("a", "b")),
        "train",
    )
    assert [p.column for p in problems] == ["a", "b", "label"]


def test_nothing_sound_is_no_split():
    split, problems = collect_split(task([{"text": "", "label": 0}]), "train")
    assert split is None
    assert len(problems) == 1


def test_a_split_without_a_file():
    with pytest.raises(WeftError, match="no file for the split 'validation'; it has: train"):
        load_split(task(GOOD), "validation")


def test_a_broken_file_is_told_with_its_task(tmp_path):
    (tmp_path / "train.csv").write_text("text,label\na\n")
    with pytest.raises(WeftError) as error:
        load_split(task(tmp_path / "train.csv"), "train")
    assert f"task 'x', split 'train': 1 problem in {tmp_path / 'train.csv'}\n  line 2" in str(error.value)


class Data(list):
    column_names = ("text", "label")

    def __getitem__(self, column):
        return [row[column] for row in self]


def fake_hub(monkeypatch, known):
    monkeypatch.setattr("weft.data.readers.hub.hub_problem", lambda: None)

    def load_dataset(name, config=None, *, split):
        if (name, config) not in known:
            raise FileNotFoundError(f"Dataset {name!r} doesn't exist")
        return known[name, config][split]

    module = ModuleType("datasets")
    module.load_dataset = load_dataset
    monkeypatch.setitem(sys.modules, "datasets", module)


@pytest.mark.parametrize(
    ("hub", "place"),
    [
        ("imdb", ("imdb", None)),
        ("glue/cola", ("glue", "cola")),
        ("stanfordnlp/imdb", ("stanfordnlp/imdb", None)),
        ("nyu-mll/glue/cola", ("nyu-mll/glue", "cola")),
    ],
)
def test_hub(monkeypatch, hub, place):
    fake_hub(monkeypatch, {place: {"train": Data(GOOD)}})
    split = load_split(task(None, files={}, hub=hub), "train")
    assert split.labels == [0, 1, 1]
    assert split.source == f"hub data set {hub}, split train"


def test_hub_that_fails(monkeypatch):
    x = task(None, files={}, hub="a/b")
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(WeftError, match=r"type: pip install datasets, or configure files for the task"):
        load_split(x, "train")
    fake_hub(monkeypatch, {})
    with pytest.raises(WeftError, match="the hub answered: Dataset 'a/b' doesn't exist; check the name"):
        load_split(x, "train")
    fake_hub(monkeypatch, {("a", "b"): {"train": Data()}})
    with pytest.raises(WeftError, match="the split has no rows"):
        load_split(x, "train")


GLUE = {
    "cola": (("sentence",), ("unacceptable", "acceptable"), 8551, 1043, 1063),
    "mrpc": (("sentence1", "sentence2"), ("not_equivalent", "equivalent"), 3668, 408, 1725),
    "rte": (("sentence1", "sentence2"), ("entailment", "not_entailment"), 2490, 277, 3000),
    "stsb": (("sentence1", "sentence2"), (), 5749, 1500, 1379),
}


@pytest.mark.parametrize("name", GLUE)
def test_real_files(shared, name):
    texts, labels, *counts = GLUE[name]
    files = {split: shared / "glue" / name / f"{split}.parquet" for split in ("train", "validation", "test")}
    x = Task(name, "classify" if labels else "regress", labels=labels, texts=texts, files=files)
    splits = [load_split(x, split) for split in files]
    assert [len(split) for split in splits] == counts
    assert splits[2].labels is None
    for split in splits[:2]:
        low, high = min(split.labels), max(split.labels)
        assert (low, high) == ((0, 1) if labels else (0.0, 5.0))


def test_real_rows_without_a_gold_label(shared):
    x = Task(
        "snli", size=3, texts=("premise", "hypothesis"), files={"train": shared / "snli" / "train.parquet"}
    )
    with pytest.raises(
        WeftError,
        match=r"1 problem in .*snli/train.parquet\n  column 'label': found '-1' in 110 rows, first row 146",
    ):
        load_split(x, "train")
