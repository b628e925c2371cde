"""docs/extension.md, "A data format": the toy reads records of `key: value` lines."""

from __future__ import annotations

import pytest

import weft
from tests.extension.recipes import follow
from tests.support.tiny_run import rows_of, write_run
from weft.cli import run
from weft.data import Source, load_split

RECORDS = "text: the old cat\nlabel: yes\n\n\ntext: a red dog\nlabel: no\n"


@pytest.fixture
def records(tmp_path, monkeypatch):
    monkeypatch.setenv("WEFT_CACHE", str(tmp_path / "cache"))
    follow("A data format", "my_reader", folder=tmp_path, monkeypatch=monkeypatch)


@pytest.mark.usefixtures("records")
def test_a_tasks_file_is_read_by_its_ending(tmp_path):
    file = tmp_path / "a.rec"
    file.write_text(RECORDS)
    split = load_split(weft.Task("a", labels=("no", "yes"), files={"train": file}), "train")
    assert list(split.texts) == [("the old cat",), ("a red dog",)]
    assert list(split.labels) == [1, 0]


@pytest.mark.usefixtures("records")
def test_a_file_of_another_name_says_its_format_and_options(tmp_path):
    file = tmp_path / "a.txt"
    file.write_text(RECORDS.replace(":", "="))
    source = Source(file, "records", options={"separator": "="})
    split = load_split(weft.Task("a", labels=("no", "yes"), files={"train": source}), "train")
    assert len(split) == 2
    with pytest.raises(weft.WeftError, match="format 'records' has no option 'seperator'; did you mean"):
        Source(file, "records", options={"seperator": "="})


@pytest.mark.usefixtures("records")
def test_a_mistake_is_told_with_its_line(tmp_path):
    file = tmp_path / "a.rec"
    file.write_text("text: the old cat\nlabel: yes\n\nno colon here\n")
    with pytest.raises(weft.WeftError, match=r"a\.rec\n  line 4: expected KEY: VALUE"):
        load_split(weft.Task("a", labels=("no", "yes"), files={"train": file}), "train")


@pytest.mark.usefixtures("records")
def test_a_run_trains_on_it(tmp_path):
    file = write_run(tmp_path, steps=3)
    rows = rows_of("cat", 20, 1)
    text = "\n\n".join(f"text: {row['text']}\nlabel: {row['label']}" for row in rows)
    (tmp_path / "cat.rec").write_text(text)
    assert run(["train", str(file), "tasks.cat.train=cat.rec", "--out", str(tmp_path / "out")]) == 0
