"""Kinds whose answers have names: one label, several, or one a word."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from weft.errors import WeftError
from weft.tasks.kinds.kind import Kind
from weft.tasks.values import whole


class Labelled(Kind):
    """A kind with C labels, each with a name and an id."""

    def size(self, task: str, labels: Sequence[str], size: int | None) -> int:
        """C: the number of labels, which `size` may give without names."""
        found = len(labels) if size is None else size
        if labels and found != len(labels):
            raise WeftError(f"task {task!r}: size {size} does not fit its {len(labels)} labels")
        if found < 2:
            raise WeftError(f"task {task!r}: {self.name} needs two labels or more; found {found}")
        return found

    def label_names(self, labels: tuple[str, ...], size: int) -> tuple[str, ...]:
        """The names that were given, else the ids as names."""
        return labels or tuple(str(i) for i in range(size))


def label_id(value: object, labels: Sequence[str]) -> int:
    """A label's id, from its name or, where no name looks like a number, from the id itself.

    Raises:
        ValueError: with what was expected.
    """
    number = whole(value)
    ids, by_id = _known(tuple(labels))
    # a table of floats holds 1.0 where a label is named "1"; JSON has true where it is named "true"
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
    """Each label's id, and whether files may hold ids too.

    With names such as 1, 2, 3 an id could not be told from a name, and is never guessed.
    """
    return {name: number for number, name in enumerate(labels)}, all(whole(label) is None for label in labels)
