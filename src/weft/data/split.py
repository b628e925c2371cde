"""One split of a task: its texts and labels, checked row by row."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.data.hub import read_hub
from weft.data.problem import DataError, Problem, show
from weft.data.read import read_rows
from weft.data.table import Table
from weft.errors import WeftError
from weft.tasks.kinds import KINDS
from weft.tasks.task import Task

SHOWN = 10
"""How many problems a message lists before it counts the rest."""


@dataclass(frozen=True, eq=False)
class Split:
    """The examples of one split, in the order of the file.

    Attributes:
        task: the task.
        split: `train`, `validation` or `test`.
        source: the file, or "rows of task X".
        texts: one text or a pair for each example, n tuples of 1 or 2.
        labels: what the task's kind makes of them (an id, a number, …), n of them; None without labels.
        row: the line (text files) or row that each comes from, from 1, [n].
        unit: what `row` counts, "line" or "row".
    """

    task: Task
    split: str
    source: str
    texts: list[tuple[str, ...]]
    labels: list[object] | None
    row: NDArray[np.int64]
    unit: str = "row"

    def __len__(self) -> int:
        return len(self.texts)


def load_split(task: Task, split: str) -> Split:
    """Load a split that has no problem in any row.

    Raises:
        WeftError: one for all that is wrong, with the first ten problems.
    """
    found, problems = collect_split(task, split)
    if found is not None and not problems:
        return found
    count = f"{len(problems)} problem{'s' * (len(problems) > 1)}"
    lines = [f"task {task.name!r}, split {split!r}: {count} in {problems[0].source}"]
    lines += [f"  {': '.join(filter(None, (p.place, p.message)))}" for p in problems[:SHOWN]]
    if len(problems) > SHOWN:
        lines.append(f"  … and {len(problems) - SHOWN} more")
    lines.append("To see what is wrong with every file of a run, type: weft check RUN.yaml")
    raise WeftError("\n".join(lines))


def collect_split(task: Task, split: str) -> tuple[Split | None, list[Problem]]:
    """Load what can be loaded of a split, and list everything that is wrong.

    Returns:
        The split with its sound rows alone (None if the source cannot be read or no row is sound), and the
        problems in the order of the rows.
    """
    try:
        table = _read(task, split)
        label_columns = _label_columns(task, split, table)
    except DataError as failed:
        return None, list(failed.problems)
    labelled = bool(label_columns) and not (split == "test" and _all_missing(table, label_columns))
    kind = KINDS[task.kind]()
    problems: list[Problem] = []
    texts: list[tuple[str, ...]] = []
    labels: list[object] = []
    sound: list[int] = []
    text_values = list(zip(*(table.columns[column] for column in task.texts), strict=True))
    label_values = list(zip(*(table.columns[column] for column in label_columns), strict=True))

    def problem(at: int, column: str, value: object, message: str) -> None:
        row = int(table.row[at])
        problems.append(
            Problem(table.source, f"found {show(value)}; {message}", row, column, value, table.unit)
        )

    for at, row_texts in enumerate(text_values):
        before = len(problems)
        for column, text in zip(task.texts, row_texts, strict=True):
            if message := wrong_text(text):
                problem(at, column, text, message)
        label: object = None
        if labelled:
            values = label_values[at]
            for column, value in zip(label_columns, values, strict=True):
                if _missing(value):
                    problem(at, column, value, "the label is missing")
            if not any(map(_missing, values)):
                try:
                    label = kind.parse(values, task.labels)
                    kind.check(label, task.size or 0)
                    _inside(label, task)
                except (ValueError, OverflowError) as failed:
                    one = values[0] if len(values) == 1 else values
                    # a whole number of 400 digits is no float
                    expected = failed if isinstance(failed, ValueError) else "a smaller number"
                    problem(at, ", ".join(label_columns), one, f"expected {expected}{_no_gold(one)}")
        if len(problems) == before:
            sound.append(at)
            texts.append(row_texts)
            labels.append(label)
    if not sound:
        return None, problems
    return Split(
        task, split, table.source, texts, labels if labelled else None, table.row[sound], table.unit
    ), problems


def _read(task: Task, split: str) -> Table:
    # a test split may have no labels at all; the columns of the others must be there
    needed = task.texts if split == "test" else (*task.texts, *task.label_columns)
    optional = task.label_columns if split == "test" else ()
    if split in task.files:
        return read_rows(task.files[split], needed, optional, f"rows of task {task.name!r}, split {split!r}")
    if task.hub and not task.files:
        return read_hub(task.hub, split, needed, optional)
    have = ", ".join(task.files) or "none"
    message = f"the task has no file for the split {split!r}; it has: {have}; give it one under files"
    raise DataError(Problem(f"task {task.name!r}", message))


def _label_columns(task: Task, split: str, table: Table) -> tuple[str, ...]:
    """The label columns, or none of them where a test split has none."""
    missing = [column for column in task.label_columns if column not in table.columns]
    if not missing:
        return task.label_columns
    if len(missing) < len(task.label_columns):
        message = "there is no such column, though other columns of the label are there; expected all or none"
        raise DataError(*(Problem(table.source, message, None, column) for column in missing))
    return ()


def wrong_text(value: object) -> str | None:
    """What is wrong with a text, or None."""
    if value is None:
        return "the text is missing"
    if not isinstance(value, str):
        return f"expected a string; this is {type(value).__name__}"
    if not value or value.isspace():
        return "expected a text that is not empty"
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            # JSON's \ud83d without its other half: no tokenizer takes it
            return "expected valid Unicode; this has half of a surrogate pair"
    return None


def _missing(value: object) -> bool:
    if isinstance(value, str):
        return not value or value.isspace()
    return value is None or (isinstance(value, float) and math.isnan(value))


def _is_minus_one(value: object) -> bool:
    if isinstance(value, str):
        return value.strip() in ("-1", "-1.0")
    return isinstance(value, int | float) and value == -1


def _all_missing(table: Table, columns: Sequence[str]) -> bool:
    """Whether no row has a label; −1 stands for none, as in the hub's test splits."""
    return all(
        _missing(value) or _is_minus_one(value) for column in columns for value in table.columns[column]
    )


def _inside(label: Any, task: Task) -> None:
    """Refuse a number outside the task's range."""
    if task.range is None:
        return
    low, high = task.range
    numbers = label if isinstance(label, list) else [label]
    if not all(low <= number <= high for number in numbers):
        raise ValueError(f"a number from {low:g} to {high:g}, the task's range")


def _no_gold(value: object) -> str:
    return "; −1 usually stands for no gold label: take such rows out" if _is_minus_one(value) else ""
