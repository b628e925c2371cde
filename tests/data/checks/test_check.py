import json
import subprocess
import sys

import pytest

from tests.data.conftest import write
from weft.data import check
from weft.tasks import Task

TRAIN = [{"text": f"train {i}", "label": i % 2} for i in range(6)]
VALIDATION = [{"text": f"validation {i}", "label": i % 2} for i in range(4)]


def task(train=TRAIN, validation=VALIDATION, **settings):
    return Task("x", **{"size": 2, "files": {"train": train, "validation": validation}, **settings})


def only(report, severity=None):
    found = [f for f in report.findings if severity in (None, f.severity)]
    assert len(found) == 1, report.lines()
    return found[0]


def test_sound_data_has_no_finding():
    report = check([task()])
    assert report.ok
    assert report.findings == []
    assert report.lines() == [
        "x/train: 6 rows; 0: 3, 1: 3",
        "x/validation: 4 rows; 0: 2, 1: 2",
        "0 errors, 0 warnings, 0 notes",
    ]


def test_files_and_splits_that_are_missing(tmp_path):
    write(tmp_path / "valid.csv", VALIDATION)
    report = check([task(tmp_path / "train.csv", tmp_path / "valid.csv"), Task("y", size=2)])
    assert not report.ok
    one, two, three = report.findings
    assert (one.severity, one.task, one.split, one.file) == (
        "error",
        "x",
        "train",
        str(tmp_path / "train.csv"),
    )
    assert "there is no such file" in one.message
    assert (two.task, two.split, three.split) == ("y", "train", "validation")
    assert "no 'train' split" in two.message
    # it went on to the next split
    assert [(f.task, f.split) for f in report.facts] == [("x", "validation")]


def test_columns_that_are_missing(tmp_path):
    path = write(tmp_path / "train.csv", [{"txt": "a", "lbl": "0"}])
    found = check([task(path)]).findings
    assert [(f.severity, f.row, f.column) for f in found] == [("error", 1, "text"), ("error", 1, "label")]


def test_empty_texts_and_labels_outside_the_set(tmp_path):
    rows = [*TRAIN, {"text": "", "label": 0}, {"text": "ok", "label": 7}]
    report = check([task(write(tmp_path / "train.csv", rows))])
    one, two = report.findings
    assert (one.severity, one.row, one.column, one.value) == ("error", 8, "text", "")
    assert (two.severity, two.row, two.column, two.value) == ("error", 9, "label", "7")
    assert str(two).startswith(
        f"error   x/train: {tmp_path / 'train.csv'}, line 9, column 'label': found '7'"
    )
    assert report.facts[0].rows == 6


def test_many_problems_are_counted():
    rows = [{"text": "", "label": 1} for i in range(25)]
    found = check([task([*TRAIN, *rows])]).findings
    assert len(found) == 11
    assert found[-1].message == "… and 15 more problems in this split, the last at row 31, column 'text'"
    assert found[-1].value == 15
    assert len(check([task([*TRAIN, *rows])], most=100).findings) == 25


@pytest.mark.parametrize("split", ["train", "validation"])
def test_labels_that_no_row_has(split):
    report = check([task(size=None, labels=("0", "1", "maybe", "never"))])
    assert report.ok
    one, two = report.findings
    assert {one.split, two.split} == {"train", "validation"}
    assert one.message == "no row has the label 'maybe' or 'never', which the task lists"
    assert one.severity == "warning"


def test_duplicates_inside_train():
    rows = [*TRAIN, {"text": "train 0", "label": 0}, {"text": "train 1", "label": 0}]
    found = only(check([task(rows)]))
    assert (found.severity, found.split, found.value) == ("note", "train", 2)
    assert found.message == (
        "2 rows repeat the text of an earlier one (rows 1 and 7; rows 2 and 8), "
        "1 of them with a different label (first rows 2 and 8)"
    )


def test_duplicates_across_splits(tmp_path):
    rows = [*VALIDATION, *TRAIN[1:6]]
    train, other = write(tmp_path / "train.csv", TRAIN), write(tmp_path / "validation.jsonl", rows)
    found = only(check([task(train, other)]))
    assert (found.severity, found.split, found.file, found.value) == ("warning", "validation", str(other), 5)
    assert found.message.startswith(
        "5 rows repeat a text of 'train' (train.csv line 3 and validation.jsonl line 5; train.csv line 4 and "
        "validation.jsonl line 6; train.csv line 5 and validation.jsonl line 7; … and 2 more)"
    )


def test_duplicates_of_the_test_split():
    files = {
        "train": TRAIN,
        "validation": VALIDATION,
        "test": [{"text": "train 3"}, {"text": "validation 3"}],
    }
    found = check([task(files=files)]).findings
    assert [(f.severity, f.split, f.value) for f in found] == [("warning", "test", 1)] * 2


def test_pairs_are_compared_as_pairs():
    train = [{"a": "p", "b": "q", "label": 0}, {"a": "p", "b": "r", "label": 1}]
    report = check([task(train, [{**row, "a": row["b"], "b": "p"} for row in train], texts=("a", "b"))])
    assert report.findings == []


def test_small_and_constant_splits():
    one = only(check([task(validation=VALIDATION[:1])]))
    assert (one.severity, one.split) == ("warning", "validation")
    assert "1 row" in one.message
    rows = [{"text": str(i), "label": 2.5} for i in range(3)]
    varied = [{"text": f"v{i}", "label": i} for i in range(3)]
    found = check([Task("r", "regress", files={"train": varied, "validation": rows})]).findings
    assert [f.message for f in found] == [
        "every row has the same label",
        "every row has the same label, so pearson and spearman cannot be computed",
    ]
    assert len(check([Task("r", "regress", files={"train": rows, "validation": varied})]).findings) == 1
    report = check([task(validation=VALIDATION[::2], metrics=("matthews",))])
    assert [f.message for f in report.findings] == [
        "no row has the label '1', which the task lists",
        "every row has the same label, so matthews cannot be computed",
    ]


def test_tokens_and_truncation(tokenizer, tmp_path):
    long = [{"text": "rain " * 30 + str(i), "label": i % 2} for i in range(2)]
    report = check([task([*TRAIN, *long])], tokenizer, max_length=16, cache=tmp_path)
    found = only(report)
    assert found.severity == "warning"
    assert found.message.startswith("25.0% of the rows are longer than max_length 16 and are truncated")
    facts = report.facts[0]
    assert (facts.max_tokens, facts.truncated, facts.mean_tokens) == (33, 0.25, (6 * 4 + 2 * 33) / 8)
    assert "tokens 11.2 mean, 33 max, 25.0% of the rows truncated" in report.lines()[0]
    assert len(list((tmp_path / "tokens").iterdir())) == 2


def test_a_split_with_problems_is_not_cached(tokenizer, tmp_path):
    report = check([task([*TRAIN, {"text": "", "label": 0}])], tokenizer, cache=tmp_path)
    assert report.facts[0].mean_tokens == 4
    assert len(list((tmp_path / "tokens").iterdir())) == 1


def test_the_report_is_json(tokenizer, tmp_path):
    odd = [
        {"text": ["a"], "label": float("inf")},
        {"text": object(), "label": (1, 2)},
        {"text": "\ud83d", "label": 0},
    ]
    report = check([task([*TRAIN, *odd, *TRAIN]), Task("y", size=2)], tokenizer, cache=tmp_path)
    found = json.loads(json.dumps(report.as_dict(), allow_nan=False))
    assert found["ok"] is False
    assert found["splits"][0]["labels"] == {"0": 6, "1": 6}
    assert found["findings"][0]["value"] == "['inf', '(1, 2)']"
    assert found["findings"][1]["value"] == "['a']"
    assert found["summary"] == "6 errors, 0 warnings, 1 note"


def test_hub_without_the_package(monkeypatch):
    monkeypatch.setitem(sys.modules, "datasets", None)
    report = check([Task("h", size=2, hub="glue/cola")])
    assert [f.split for f in report.findings] == ["train", "validation"]
    assert "pip install datasets" in report.findings[0].message


def test_real_stsb_shares_rows_between_splits(shared):
    files = {split: shared / "glue" / "stsb" / f"{split}.parquet" for split in ("train", "validation")}
    report = check([Task("stsb", "regress", texts=("sentence1", "sentence2"), files=files)])
    assert report.ok
    assert only(report, "warning").value == 6
    assert report.facts[0].labels["max"] == 5


def test_checking_needs_no_torch():
    script = """
import sys
from weft.data import check, collate, load_split, tokenize
from weft.tasks import Task
rows = [{'text': 'a', 'label': 0}, {'text': 'b', 'label': 1}]
check([Task('x', size=2, files={'train': rows, 'validation': rows})])
heavy = {'torch', 'transformers', 'pyarrow', 'pandas'} & set(sys.modules)
assert not heavy, heavy
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
