"""One split of a task: its texts and labels, checked row by row."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from weft.data.readers.columns import givens, input_columns
from weft.data.readers.hub import read_hub
from weft.data.readers.problem import DataError, Problem, show
from weft.data.readers.read import read_rows
from weft.data.readers.table import Table
from weft.errors import WeftError
from weft.tasks.kinds import KINDS
from weft.tasks.kinds.kind import Inputs, Kind
from weft.tasks.task import Task
from weft.tasks.values import wrong_text as wrong_text

SHOWN = 10
"""How many problems a message lists before it counts the rest."""


@dataclass(frozen=True, eq=False)
class Split:
    """The examples of one split, in the order of the file.

    Attributes:
        task: the task.
        split: `train`, `validation` or `test`.
        source: the file, or "rows of task X".
        texts: the texts of each example, n tuples: one or two; of `choose` and `rank` the choices follow; of
            `tag` they are the words.
        labels: what the task's kind makes of them (an id, a number, …), n of them; None without labels.
        row: the line (text files) or row that each comes from, from 1, [n].
        unit: what `row` counts, "line" or "row".
        marks: (text, first character, one after the last) of each mark, n tuples; None without marks.
        groups: which examples are judged together, n values; None without `group`.
        ids: the examples' names in the file, n values; None without `id`.
        dropped: how many rows were left out, because their label says that there is none.
    """

    task: Task
    split: str
    source: str
    texts: list[tuple[str, ...]]
    labels: list[object] | None
    row: NDArray[np.int64]
    unit: str = "row"
    marks: list[tuple[tuple[int, int, int], ...]] | None = field(default=None)
    groups: list[tuple[object, ...]] | None = field(default=None)
    ids: list[tuple[object, ...]] | None = field(default=None)
    dropped: int = 0

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
    examples: list[Inputs] = []
    labels: list[object] = []
    sound: list[int] = []
    dropped = 0
    label_values = list(zip(*(table.columns[column] for column in label_columns), strict=True))

    def problem(at: int, column: str, value: object, message: str) -> None:
        row = int(table.row[at])
        told, name = f"found {show(value)}; {message}", _called(table, column)
        problems.append(Problem(table.source, told, row, name, value, table.unit))

    for at, given in enumerate(givens(task, table)):
        if labelled and task.drop and any(_as_written(value) in task.drop for value in label_values[at]):
            dropped += 1
            continue
        before = len(problems)
        inputs, wrong = kind.inputs(task, given)
        for column, value, message in wrong:
            problem(at, column, value, message)
        label: object = None
        if labelled:
            values = label_values[at]
            missing = (
                []
                if kind.empty_label
                else [c for c, v in zip(label_columns, values, strict=True) if _missing(v)]
            )
            for column in missing:
                problem(at, column, values[label_columns.index(column)], "the label is missing")
            if not missing:
                try:
                    label = _label(kind, values, task, inputs if len(problems) == before else None)
                except (ValueError, OverflowError) as failed:
                    one = values[0] if len(values) == 1 else values
                    # a whole number of 400 digits is no float
                    expected = failed if isinstance(failed, ValueError) else "a smaller number"
                    problem(at, ", ".join(label_columns), one, f"expected {expected}{_no_gold(one)}")
        if len(problems) == before:
            sound.append(at)
            examples.append(inputs)
            labels.append(label)
    if not sound:
        if not problems:
            message = f"every row has a label that is dropped ({', '.join(task.drop)}); expected some to stay"
            problems.append(Problem(table.source, message, None, ", ".join(label_columns)))
        return None, problems
    return Split(
        task,
        split,
        table.source,
        [inputs.texts for inputs in examples],
        labels if labelled else None,
        table.row[sound],
        table.unit,
        [inputs.marks for inputs in examples] if task.marks else None,
        _values(table, task.group, sound),
        _values(table, task.id, sound),
        dropped,
    ), problems


def _label(kind: Kind, values: Sequence[object], task: Task, inputs: Inputs | None) -> object:
    label = kind.parse(values, task.labels)
    if inputs is not None:
        kind.fits(label, task, inputs)
    return label


def _called(table: Table, columns: str) -> str:
    """Columns as the file calls them."""
    return ", ".join(table.called(column) for column in columns.split(", "))


def _values(table: Table, columns: Sequence[str], rows: Sequence[int]) -> list[tuple[object, ...]] | None:
    """The values of some columns, for each of these rows; None where a column is not there."""
    if not columns or any(column not in table.columns for column in columns):
        return None
    return [tuple(table.columns[column][at] for column in columns) for at in rows]


def _read(task: Task, split: str) -> Table:
    inputs = input_columns(task)
    # a test split may have no labels at all; the columns of the others must be there
    needed = inputs if split == "test" else (*inputs, *task.label_columns)
    optional = (*(task.label_columns if split == "test" else ()), *task.id)
    if split in task.files:
        return read_rows(task.files[split], needed, optional, f"rows of task {task.name!r}, split {split!r}")
    if task.hub and not task.files:
        return read_hub(task.hub, split, needed, optional)
    have = ", ".join(task.files) or "none"
    message = f"the task has no file for the split {split!r}; it has: {have}; give it one: {split}: FILE"
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


def _missing(value: object) -> bool:
    if isinstance(value, str):
        return not value or value.isspace()
    return value is None or (isinstance(value, float) and math.isnan(value))


def _as_written(value: object) -> str:
    """A label as `drop` names it: −1 and −1.0 are one."""
    text = str(value).strip()
    return text.removesuffix(".0")


def _is_minus_one(value: object) -> bool:
    if isinstance(value, str):
        return value.strip() in ("-1", "-1.0")
    return isinstance(value, int | float) and value == -1


def _all_missing(table: Table, columns: Sequence[str]) -> bool:
    """Whether no row has a label; −1 stands for none, as in the hub's test splits."""
    return all(
        _missing(value) or _is_minus_one(value) for column in columns for value in table.columns[column]
    )


def _no_gold(value: object) -> str:
    if not _is_minus_one(value):
        return ""
    return '; −1 usually stands for no gold label: take such rows out, with drop: ["-1"] in the task'
