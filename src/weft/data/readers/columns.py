"""The columns that a task reads, and their values for each example."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import repeat
from string import Formatter
from typing import TYPE_CHECKING

from weft.errors import WeftError
from weft.tasks.kinds import KINDS
from weft.tasks.kinds.kind import ColumnValues

if TYPE_CHECKING:
    from weft.data.readers.table import Table
    from weft.tasks.task import Task


@lru_cache(4096)  # a server asks for them with every request
def template_columns(text: str) -> tuple[str, ...]:
    """Return the columns in braces of a template; an empty tuple for a plain column name."""
    return tuple(name for _, name in _parts(text) if name is not None)


def _parts(text: str) -> list[tuple[str, str | None]]:
    """Split a template into (text before the braces, column name); the last name may be None."""
    try:
        parts = list(Formatter().parse(text))
    except ValueError as wrong:
        raise WeftError(f"texts: {text!r} is not a template: {wrong}") from None
    for _, name, form, conversion in parts:
        if name == "" or form or conversion:
            raise WeftError(f"texts: {text!r} is not a template: expected the names of columns in braces")
    return [(before, name) for before, name, _, _ in parts]


def plain_text(text: str, value: object) -> object:
    """Return the text of a task from what a user sent as this text, without naming columns.

    A template of one column is filled with it. A template of several columns cannot be: there the user has
    joined the columns already.

    Args:
        text: the column or the template.
        value: what the user sent; what is not a string stays as it is.

    Example:
        >>> plain_text("query: {text}", "red shoes"), plain_text("text", "red shoes")
        ('query: red shoes', 'red shoes')
    """
    if len(template_columns(text)) != 1 or not isinstance(value, str):
        return value
    return "".join(before if name is None else before + value for before, name in _parts(text))


def plain_texts(task: Task) -> int:
    """Return how many texts a request of the task has; 0 if its input is more than plain columns."""
    if task.marks or task.choices or KINDS[task.kind].windows or any(map(template_columns, task.texts)):
        return 0
    return len(task.texts)


def text_columns(task: Task) -> tuple[str, ...]:
    """Return the columns that the task's texts are built from."""
    columns = [column for text in task.texts for column in template_columns(text) or (text,)]
    return tuple(dict.fromkeys(columns))


def read_columns(task: Task) -> tuple[str, ...]:
    """Return the columns of the encoder's input: those needed for a prediction."""
    marks = [column for mark in task.marks for column in mark.columns]
    return tuple(dict.fromkeys((*text_columns(task), *task.choices, *marks)))


def input_columns(task: Task) -> tuple[str, ...]:
    """Return all columns of an example except its label."""
    return tuple(dict.fromkeys((*read_columns(task), *task.group)))


def column_values(task: Task, table: Table) -> Iterator[ColumnValues]:
    """Yield the values of each example."""
    n = len(table)
    texts = _rows([_texts(text, table) for text in task.texts], n)
    choices = _rows([table.columns[c] for c in task.choices], n)
    marks = [_rows([table.columns[c] for c in mark.columns], n) for mark in task.marks]
    yield from map(ColumnValues, texts, choices, _rows(marks, n))  # type: ignore[arg-type]


def _rows(columns: Sequence[Iterable[object]], n: int) -> Iterator[tuple[object, ...]]:
    """Yield the values of each row, one row at a time: there may be millions."""
    return zip(*columns, strict=True) if columns else repeat((), n)


def _texts(text: str, table: Table) -> list[object]:
    """Return the values of a column or the filled templates; a missing value stays missing."""
    names = template_columns(text)
    if not names:
        return table.columns[text]
    parts = _parts(text)
    values = [table.columns[name] for name in names]
    filled: list[object] = []
    for row in zip(*values, strict=True):
        plain = [isinstance(value, str | int | float) and not isinstance(value, bool) for value in row]
        if all(plain):
            # not by str.format: a column may be named "answer.text"
            values_of_row = iter(row)
            filled.append("".join(b if name is None else f"{b}{next(values_of_row)}" for b, name in parts))
        else:
            filled.append(row[plain.index(False)])
    return filled
