"""Labels that a task does not have, and missing ones: listed once per file with counts and hints."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from weft.data.readers.problem import Problem, show
from weft.data.readers.table import Table
from weft.errors import words
from weft.tasks.kinds.kind import Kind
from weft.tasks.kinds.labelled import Labelled, label_id
from weft.tasks.task import Task
from weft.tasks.values import is_missing, whole

SHOWN = 10
"""How many unknown labels are listed; the others are counted."""
_NO_GOLD = ("-1", "-1.0")
_INVISIBLE = "\u200b\u200c\u200d\u2060\ufeff"
"""Characters without width, which `str.strip` keeps."""


def has_no_label(value: object, kind: Kind) -> bool:
    """Whether a label is empty: null, NaN, a blank text, a list or an object without content.

    An empty list is a label of kinds for which it means that no label holds.
    """
    if isinstance(value, Mapping):
        return not any(value.values())
    return is_missing(value) or (value == [] and not kind.empty_label)


def is_dropped(value: object, drop: Sequence[str | None], kind: Kind) -> bool:
    """Whether a task leaves out rows with this label; None in `drop` stands for a missing label."""
    if has_no_label(value, kind) and None in drop:
        return True
    return str(value).strip().removesuffix(".0") in drop  # −1.0 is written −1


def same_label(name: str) -> str:
    """Return what labels have in common that differ only in capitals and surrounding spaces."""
    return name.strip().strip(_INVISIBLE).strip().casefold()


@dataclass
class _Rows:
    """The rows of one value: how many, the first, its cell, and what was expected there."""

    count: int = 0
    first: int = -1
    cell: object = None
    message: str = ""


@dataclass
class LabelProblems:
    """The labels of a file that cannot be used.

    Args:
        task: the task.
        kind: its kind.
        table: the file's rows.
        column: the label columns, as messages name them.
    """

    task: Task
    kind: Kind
    table: Table
    column: str
    _unknown: dict[str, _Rows] = field(default_factory=dict)
    _rows: int = 0
    _missing: dict[str, _Rows] = field(default_factory=dict)

    def missing(self, at: int, column: str, cell: object) -> None:
        """Add a row without a label.

        Args:
            at: the row.
            column: the label column.
            cell: the value found.
        """
        _add(self._missing, column, at, cell, "the label is missing")

    def unknown(self, at: int, cells: Sequence[object], message: str) -> bool:
        """Add a row whose label the task does not have; False if its label is wrong in a different way.

        Args:
            at: the row.
            cells: the values of the label columns.
            message: what is wrong with the row, if it is the only one.
        """
        if not isinstance(self.kind, Labelled) or len(cells) != 1:
            return False
        items = [item for item in self.kind.items(cells[0]) if not _is_known(item, self.task.labels)]
        for text in dict.fromkeys(map(str, items)):
            _add(self._unknown, text, at, cells[0], message)
        self._rows += bool(items)
        return bool(items)

    def problems(self) -> list[tuple[int, Problem]]:
        """Return one problem per column for the rows without a label, and one for all unknown labels.

        Each has the position of its row, or −1 if it is about several rows.
        """
        found = []
        for column, rows in self._missing.items():
            remedy = words("drop: [null] in the task", "drop=[None] in the task")
            drop = f"to leave such rows out, write {remedy}"
            if rows.count == 1:
                message = f"found {show(rows.cell)}; the label is missing; {drop}"
                found.append((rows.first, self._problem(message, rows.first, column, rows.cell)))
            else:
                message = f"the label is missing in {rows.count} rows, {self._first(rows)}; {drop}"
                found.append((-1, self._problem(message, None, column, rows.cell)))
        if self._unknown:
            problem = self._of_unknown()
            found.append((-1 if problem.row is None else next(iter(self._unknown.values())).first, problem))
        return found

    def _of_unknown(self) -> Problem:
        shift = self._shift()
        if self._rows == 1:
            (text, rows), *_ = self._unknown.items()
            hint = shift or ("" if text in _NO_GOLD else _hint(text, self.task.labels)[1])
            message = f"found {show(rows.cell)}; {rows.message}{f'; {hint}' * bool(hint)}"
            return self._problem(message, rows.first, self.column, rows.cell)
        known = ", ".join(self.task.labels[:20]) + ", …" * (len(self.task.labels) > 20)
        if len(self._unknown) == 1:
            (text, rows), *_ = self._unknown.items()
            about, hint = _hint(text, self.task.labels)
            further = filter(None, [shift] if shift else [hint, *self._remedy()])
            hints = "".join(f"; {hint_text}" for hint_text in further).replace("?; ", "? ")
            message = f"found {show(text)}{about} in {rows.count} rows, {self._first(rows)}; "
            return self._problem(f"{message}expected one of {known}{hints}", None, self.column, text)
        listed = sorted(self._unknown.items(), key=lambda item: -item[1].count)
        lines = [self._line(text, rows) for text, rows in listed[:SHOWN]]
        if len(listed) > SHOWN:
            lines.append(f"… and {len(listed) - SHOWN} more")
        lines += [shift] if shift else self._remedy()
        message = f"{len(listed)} unknown labels in {self._rows} rows; expected one of {known}"
        message += "".join(f"\n    {line}" for line in lines)
        return self._problem(message, None, self.column, [text for text, _ in listed[:SHOWN]])

    def _line(self, text: str, rows: _Rows) -> str:
        about, hint = _hint(text, self.task.labels)
        count = f"{rows.count} row{'s' * (rows.count > 1)}, {self._first(rows)}"
        return f"{show(text)}{about}, {count}{f': {hint}' * bool(hint)}"

    def _first(self, rows: _Rows) -> str:
        return f"first {self.table.unit} {self.table.row_name(rows.first)}"

    def _problem(self, message: str, at: int | None, column: str, value: object) -> Problem:
        row = None if at is None else self.table.row_name(at)
        return Problem(self.table.source, message, row, column, value, self.table.unit)

    def _remedy(self) -> list[str]:
        """How to replace labels that differ in spaces or capitals; only cells, not lists, can be replaced."""
        names = {same_label(name): name for name in self.task.labels}
        pairs = {
            text: names[same_label(text)]
            for text, rows in self._unknown.items()
            if same_label(text) in names and str(rows.cell) == text
        }
        if not pairs:
            return []
        shown = ", ".join(f"{old!r}: {new!r}" for old, new in list(pairs.items())[:SHOWN])
        column = self.task.label_columns[0]
        values = f"{{path: FILE, options: {{values: {{{column}: {{{shown}}}}}}}}}"
        return [f"Correct the file, or replace them: {values}"]

    def _shift(self) -> str:
        """What to write if the file's ids count from 1 and the task's from 0, or the other way."""
        column, labels = self.task.label_columns[0], self.task.labels
        assert isinstance(self.kind, Labelled)
        ids = set()
        for cell in self.table.columns[column]:
            for item in self.kind.items(cell):
                number = whole(item)
                if number is None and not is_missing(item):
                    return ""
                ids |= {number} - {None, -1}
        numbers = sorted(number for number in ids if number is not None)
        if not numbers:
            return ""
        count, low, high = len(labels), numbers[0], numbers[-1]
        named = [whole(label) for label in labels]
        if named == list(range(count)) and (low, high) == (1, count):
            names = _quoted(range(1, count + 1))
            return f"the file's ids count from 1, the task's from 0. Write: labels: {names}"
        if named == list(range(1, count + 1)) and low == 0 and high < count:
            return f"the file's ids count from 0, the task's from 1. Write: labels: {_quoted(range(count))}"
        if all(number is None for number in named) and (low, high) == (1, count):
            pairs = ", ".join(f"{number}: {name!r}" for number, name in enumerate(labels, 1))
            return (
                "the file's ids count from 1, and ids of labels from 0. Write: "
                f"{{path: FILE, options: {{values: {{{column}: {{{pairs}}}}}}}}}"
            )
        return ""


def _add(groups: dict[str, _Rows], key: str, at: int, cell: object, message: str) -> None:
    rows = groups.setdefault(key, _Rows(0, at, cell, message))
    rows.count += 1


def _is_known(item: object, labels: Sequence[str]) -> bool:
    try:
        label_id(item, labels)
    except ValueError:
        return False
    return True


def _quoted(numbers: Sequence[int]) -> str:
    return "[" + ", ".join(f'"{number}"' for number in numbers) + "]"


def _hint(text: str, labels: Sequence[str]) -> tuple[str, str]:
    """Return what is odd about an unknown label, and what was probably meant."""
    about = ""
    if text != text.strip(_INVISIBLE):
        about = " with an invisible character"
    elif text != text.strip():
        odd = {"leading": text != text.lstrip(), "trailing": text != text.rstrip()}
        about = f" with a {' and a '.join(side for side in odd if odd[side])} space"
    if text in _NO_GOLD:
        return about, 'it usually means "no gold label": leave such rows out with drop: ["-1"] in the task'
    bare = text.strip().strip(_INVISIBLE).strip()
    if bare in labels:
        return about, f"did you mean {bare!r}?"
    for label in labels:
        if same_label(label) == bare.casefold():
            return about or " in different capitals", f"did you mean {label!r}?"
    if bare.lower() in ("true", "false") and set(labels) == {"0", "1"}:
        return about, 'write: labels: ["false", "true"]'
    if bare.lower() in ("null", "none", "nan", "n/a", "na"):
        return about, f"if it means a missing label, leave such rows out with drop: [{text!r}] in the task"
    near = difflib.get_close_matches(bare, labels, n=1, cutoff=0.8)
    return about, f"did you mean {near[0]!r}?" if near else ""
