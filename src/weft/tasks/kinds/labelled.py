"""Labelled: the base of kinds with named labels: one per example, several, or one per word."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache

from weft.errors import WeftError, words
from weft.tasks.kinds.kind import Kind
from weft.tasks.values import whole

IN_PYTHON = "labels=['bad', 'good']; labels of rows in memory (data=…) are found by themselves"
"""What to write in Python."""


class Labelled(Kind):
    """A kind with C labels, each with a name and an id."""

    def size(self, task: str, labels: Sequence[str], size: int | None) -> int:
        """C: the number of labels, or `size` if the labels have no names."""
        count = len(labels) if size is None else size
        if labels and count != len(labels):
            raise WeftError(f"task {task!r}: size {size} does not match its {len(labels)} labels")
        if count < 2:
            raise WeftError(
                f"task {task!r}: {self.name} needs two labels or more; found {count}; "
                f"name them, for example {words('labels: [bad, good]', IN_PYTHON)}"
            )
        return count

    def label_names(self, labels: tuple[str, ...], size: int) -> tuple[str, ...]:
        """The configured names, else the ids as names."""
        return labels or tuple(str(i) for i in range(size))

    def found_labels(self, columns: Mapping[str, Sequence[object]]) -> tuple[str, ...]:
        """The distinct labels, sorted, whole numbers by their value; of several columns their names."""
        if len(columns) > 1:
            return tuple(columns)
        cells = next(iter(columns.values()))
        names = dict.fromkeys(label_name(item) for value in cells for item in self.items(value))
        numbers = {name: whole(name) for name in names}
        by_value = None not in numbers.values()
        return tuple(sorted(names, key=lambda name: ((numbers[name] or 0) if by_value else 0, name)))

    def items(self, value: object) -> Sequence[object]:
        """The labels in one cell of the label column."""
        return [value]


def label_name(value: object) -> str:
    """Return the name of a label that was found in a cell: 1.0 in a table of floats is the label 1.

    Raises:
        ValueError: if it is a number with decimals, a list or a dict.
    """
    if isinstance(value, bool | str):
        return str(value)
    number = whole(value)
    if number is not None:
        return str(number)
    if isinstance(value, float):
        raise ValueError(f"found {value!r}; expected labels; numbers with decimals are the kind 'regress'")
    if isinstance(value, list | tuple | dict):
        raise ValueError(f"found {value!r}; expected one label; several are the kind 'multilabel'")
    return str(value)


def label_id(value: object, labels: Sequence[str]) -> int:
    """Return a label's id from its name or, if no name looks like a number, from the id itself.

    Raises:
        ValueError: if it is neither; the message states what was expected.
    """
    number = whole(value)
    ids, by_id = _known(tuple(labels))
    # a table of floats holds 1.0 for a label named "1"; JSON holds true for a label named "true"
    forms = [str(value)] if number is None else [str(value), str(number)]
    for name in [*forms, str(value).lower()] if isinstance(value, bool) else forms:
        if name in ids:
            return ids[name]
    if by_id and number is not None and number in range(len(labels)):
        return number
    further = f", or an id from 0 to {len(labels) - 1}" if by_id else ""
    raise ValueError(f"one of {', '.join(labels)}{further}")


@lru_cache(maxsize=256)
def _known(labels: tuple[str, ...]) -> tuple[dict[str, int], bool]:
    """Return the id of each label name, and whether files may hold ids too.

    With names such as 1, 2, 3 an id could not be distinguished from a name, so ids are not accepted.
    """
    return {name: number for number, name in enumerate(labels)}, all(whole(label) is None for label in labels)
