"""What is said of wrong files: the file, the line or row, the column, and what was expected."""

from __future__ import annotations

import pytest

from tests.support.malformed import Case
from tests.support.malformed_kinds import FINE, WRONG
from weft.data import collect_split, load_split
from weft.data.readers.source import Source
from weft.errors import WeftError
from weft.tasks.task import Task


def task_of(case: Case, path):
    return Task(
        name="bad", files={"train": Source(path, **case.source) if case.source else path}, **case.task
    )


def test_there_are_many():
    assert len(WRONG) >= 60


@pytest.mark.parametrize("case", WRONG.values(), ids=WRONG)
def test_wrong_files(tmp_path, case):
    path = case.write(tmp_path)
    _, problems = collect_split(task_of(case, path), "train")
    told = [str(problem) for problem in problems]
    place, *words = case.words
    found = next((line for line in told if all(word in line for word in words)), None)
    assert found is not None, told
    assert found.startswith(str(path))
    assert place in found
    if place.startswith(("line", "row", "question")):
        assert found.startswith(f"{path}, {place}")
    with pytest.raises(WeftError) as error:
        load_split(task_of(case, path), "train")
    assert str(path) in str(error.value)


@pytest.mark.parametrize(("case", "rows"), FINE.values(), ids=FINE)
def test_odd_files_that_are_right(tmp_path, case, rows):
    assert len(load_split(task_of(case, case.write(tmp_path)), "train")) == rows
