"""Split: the texts and labels of one split of a task, checked row by row."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.data.readers.columns import column_values, input_columns
from weft.data.readers.hub import read_hub
from weft.data.readers.problem import DataError, Problem, show
from weft.data.readers.read import read_rows
from weft.data.readers.source import with_dialect
from weft.data.readers.table import Table
from weft.data.splits.packed_texts import PackedTexts
from weft.data.splits.unknown import LabelProblems, is_dropped
from weft.errors import WeftError, words
from weft.tasks.kinds import KINDS
from weft.tasks.kinds.kind import Inputs, Kind
from weft.tasks.task import OF_FILES, Task
from weft.tasks.values import is_missing
from weft.tasks.values import wrong_text as wrong_text

SHOWN = 10
"""The maximal number of problems that a message lists; the rest is counted."""


@dataclass(frozen=True, eq=False)
class Split:
    """The examples of one split, in the order of the file.

    Attributes:
        task: the task.
        split: `train`, `validation` or `test`.
        source: the file, or "rows of task X".
        texts: n tuples of one or two texts, packed (`PackedTexts`); for `choose` and `rank` the choices
            follow; for `tag` they are the words.
        labels: n labels as parsed by the task's kind (an id, a number, …); None without labels.
        row: the line (text files) or row of each example, from 1, [n]; of rows in memory their index, which
            may be strings.
        unit: what `row` counts, "line", "row" or "index".
        marks: n tuples of (text, first character, last character + 1), one per mark; None without marks.
        groups: n values; examples with equal ones are judged together; None without `group`.
        ids: n values that name the examples in the file; None without `id`.
        dropped: the number of rows left out because of their label (`drop`).
        notes: what `weft check` reports about how the file was read.
    """

    task: Task
    split: str
    source: str
    texts: Sequence[tuple[str, ...]]
    labels: list[object] | None
    row: NDArray[Any]
    unit: str = "row"
    marks: list[tuple[tuple[int, int, int], ...]] | None = field(default=None)
    groups: list[tuple[object, ...]] | None = field(default=None)
    ids: list[tuple[object, ...]] | None = field(default=None)
    dropped: int = 0
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.texts)


def load_split(task: Task, split: str) -> Split:
    """Load a split; any problem in any row raises.

    Raises:
        WeftError: the first ten problems, and the number of all.
    """
    loaded, problems = collect_split(task, split)
    if loaded is not None and not problems:
        return loaded
    count = f"{len(problems)} problem{'s' * (len(problems) > 1)}"
    lines = [f"task {task.name!r}, split {split!r}: {count} in {problems[0].source}"]
    lines += [f"  {': '.join(filter(None, (p.place, p.message)))}" for p in problems[:SHOWN]]
    if len(problems) > SHOWN:
        lines.append(f"  … and {len(problems) - SHOWN} more")
    lines.append(
        words(
            "To check every file of a run, type: weft check RUN.yaml",
            "To check all rows of a task: print(weft.data.check([task]))",
        )
    )
    raise WeftError("\n".join(lines))


def collect_split(task: Task, split: str) -> tuple[Split | None, list[Problem]]:
    """Load the valid rows of a split, and list all problems.

    Returns:
        The split with its valid rows only (None if the source cannot be read or no row is valid), and the
        problems: labels that are wrong in several rows first, then those of single rows in their order.
    """
    try:
        table = _read(task, split)
        label_columns = _label_columns(task, split, table)
    except DataError as failed:
        return None, list(failed.problems)
    labelled = bool(label_columns) and not (split == "test" and _all_missing(table, label_columns))
    kind = KINDS[task.kind]()
    found: list[tuple[int, Problem]] = []
    bad_labels = LabelProblems(task, kind, table, ", ".join(map(table.called, label_columns)))
    texts = PackedTexts()
    marks: list[tuple[tuple[int, int, int], ...]] = []
    labels: list[object] = []
    valid = array("q")  # a list would hold one object per number
    dropped = 0
    label_values = [table.columns[column] for column in label_columns]
    emptied = _read_once(task, table)

    def problem(at: int, column: str, value: object, message: str) -> None:
        row = table.row_name(at)
        text, name = f"found {show(value)}; {message}", _called(table, column)
        found.append((at, Problem(table.source, text, row, name, value, table.unit)))

    for at, values in enumerate(column_values(task, table)):
        cells = tuple(column[at] for column in label_values)
        if labelled and task.drop and any(is_dropped(cell, task.drop, kind) for cell in cells):
            dropped += 1
            continue
        for column_of_texts in emptied:
            column_of_texts[at] = None  # `values` has it; a string and its packed copy would be twice as much
        before = len(found)
        inputs, wrong = kind.inputs(task, values)
        for column, value, message in wrong:
            problem(at, column, value, message)
        label: object = None
        usable = True
        if labelled:
            missing = (
                []
                if kind.empty_label
                else [c for c, v in zip(label_columns, cells, strict=True) if is_missing(v)]
            )
            for column in missing:
                bad_labels.missing(at, table.called(column), cells[label_columns.index(column)])
            usable = not missing
            if not missing:
                try:
                    label = _label(kind, cells, task, inputs if len(found) == before else None)
                except (ValueError, OverflowError) as failed:
                    cell = cells[0] if len(cells) == 1 else cells
                    # an integer of 400 digits cannot become a float
                    expected = failed if isinstance(failed, ValueError) else "a smaller number"
                    message = f"expected {expected}{_no_gold(cell)}"
                    usable = False
                    if not bad_labels.unknown(at, cells, message):
                        problem(at, ", ".join(label_columns), cell, message)
        if usable and len(found) == before:
            valid.append(at)
            texts.append(inputs.texts)
            if task.marks:
                marks.append(inputs.marks)
            labels.append(label)
    found += bad_labels.problems()
    problems = [problem for _, problem in sorted(found, key=lambda item: item[0])]
    if not valid:
        if not problems:
            dropping = ", ".join("null" if label is None else label for label in task.drop)
            message = f"every row has a label that is dropped ({dropping}); expected others too"
            problems.append(Problem(table.source, message, None, ", ".join(label_columns)))
        return None, problems
    return Split(
        task,
        split,
        table.source,
        texts,
        labels if labelled else None,
        table.row[np.asarray(valid)],
        table.unit,
        marks if task.marks else None,
        _values(table, task.group, valid),
        _values(table, task.id, valid),
        dropped,
        table.notes,
    ), problems


def _label(kind: Kind, values: Sequence[object], task: Task, inputs: Inputs | None) -> object:
    label = kind.parse(values, task.labels)
    if inputs is not None:
        kind.fits(label, task, inputs)
    return label


def _read_once(task: Task, table: Table) -> list[list[object]]:
    """The columns of texts that are read once, row by row, and that may be emptied meanwhile."""
    if not table.own:
        return []
    others = {*task.label_columns, *task.group, *task.id, *task.choices}
    others |= {column for mark in task.marks for column in mark.columns}
    return [table.columns[text] for text in task.texts if text in table.columns and text not in others]


def _called(table: Table, columns: str) -> str:
    """The file's names of the columns."""
    return ", ".join(table.called(column) for column in columns.split(", "))


def _values(table: Table, columns: Sequence[str], rows: Sequence[int]) -> list[tuple[object, ...]] | None:
    """The values of some columns in these rows; None if a column is missing."""
    if not columns or any(column not in table.columns for column in columns):
        return None
    return [tuple(table.columns[column][at] for column in columns) for at in rows]


def _read(task: Task, split: str) -> Table:
    inputs = input_columns(task)
    # a test split may have no labels; other splits must have the label columns
    needed = inputs if split == "test" else (*inputs, *task.label_columns)
    optional = (*(task.label_columns if split == "test" else ()), *task.id)
    if split in task.files:
        keys = {key: value for key in OF_FILES if (value := getattr(task, key)) is not None}
        file = with_dialect(task.files[split], keys)
        return read_rows(file, needed, optional, f"rows of task {task.name!r}, split {split!r}")
    if task.hub and not task.files:
        return read_hub(task.hub, split, needed, optional)
    have = ", ".join(task.files) or "none"
    message = f"the task has no file for the split {split!r}; it has: {have}; add one: "
    message += words(f"{split}: FILE", f"files={{{split!r}: FILE}}, or rows in data={{{split!r}: …}}")
    raise DataError(Problem(f"task {task.name!r}", message))


def _label_columns(task: Task, split: str, table: Table) -> tuple[str, ...]:
    """The label columns, or an empty tuple for a test split without labels."""
    missing = [column for column in task.label_columns if column not in table.columns]
    if not missing:
        return task.label_columns
    if len(missing) < len(task.label_columns):
        message = "there is no such column, but other label columns exist; expected all or none"
        raise DataError(*(Problem(table.source, message, None, column) for column in missing))
    return ()


def _is_minus_one(value: object) -> bool:
    if isinstance(value, str):
        return value.strip() in ("-1", "-1.0")
    return isinstance(value, int | float) and value == -1


def _all_missing(table: Table, columns: Sequence[str]) -> bool:
    """Whether no row has a label; −1 means no label, as in the hub's test splits."""
    return all(
        is_missing(value) or _is_minus_one(value) for column in columns for value in table.columns[column]
    )


def _no_gold(value: object) -> str:
    if not _is_minus_one(value):
        return ""
    drop = words('drop: ["-1"] in the task', 'drop=["-1"]')
    return f'; −1 usually means "no gold label": leave such rows out with {drop}'
