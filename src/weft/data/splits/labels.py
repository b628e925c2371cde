"""The labels of a task that names none: those of its training split, sorted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from weft.data.readers.hub import read_hub
from weft.data.readers.problem import DataError, show
from weft.data.readers.read import read_rows
from weft.data.readers.source import with_dialect
from weft.data.splits.unknown import is_dropped, same_label
from weft.errors import WeftError
from weft.tasks.kinds import KINDS
from weft.tasks.kinds.kind import Kind
from weft.tasks.kinds.labelled import Labelled, label_name
from weft.tasks.values import is_missing, number_of

MOST = 200
"""A column with more distinct values than this, most of them in one row, does not hold labels."""


def labels_in_train(
    kind: str,
    label: str,
    file: Any,
    hub: str | None = None,
    drop: Sequence[str | None] = (),
    keys: Mapping[str, Any] | None = None,
) -> tuple[str, ...]:
    """Return the labels of a training split, sorted, numbers by their value; () for a kind without labels.

    Missing labels and those in `drop` are left out. Of labels that differ only in capitals or in surrounding
    spaces, such as "pos" and "pos ", the most frequent one counts: reading the rows then reports the others.

    Args:
        kind: the task's kind.
        label: the column.
        file: the training file, a source, or rows in memory; None if there is none.
        hub: the data set on the hub, if there is no file.
        drop: the task's `drop`.
        keys: the task's `encoding`, `delimiter` and `quotes`, those that are not None.

    Raises:
        WeftError: the file cannot be read, or the column does not hold labels.
    """
    known = KINDS[kind]()
    if not isinstance(known, Labelled) or (file is None and hub is None):
        return ()
    try:
        if file is not None:
            table = read_rows(with_dialect(file, keys or {}), [label], (), "the training rows")
        else:
            table = read_hub(str(hub), "train", [label])
    except DataError as failed:
        raise WeftError(f"labels: none are named, and the training split cannot be read: {failed}") from None
    values = [v for v in table.columns[label] if not is_missing(v) and not is_dropped(v, drop, known)]
    place = f"labels: none are named; {table.source}, column {table.called(label)!r}"
    try:
        names = known.found_labels({label: values})
    except ValueError as wrong:
        raise WeftError(f"{place}: {wrong}") from None
    counts = Counter(label_name(item) for value in values for item in known.items(value))
    if len(names) > MOST and len(names) > len(values) / 2:
        first = ", ".join(show(name, 30) for name in names[:3])
        raise WeftError(
            f"{place}: found {len(names)} distinct values in {len(values)} rows, such as {first}; expected a "
            "few labels: set the column of the label (label: COLUMN), or name the labels"
            f"{_other_kind(names, known)}"
        )
    return _sorted(_without_variants(names, counts))


def _other_kind(names: Sequence[str], kind: Kind) -> str:
    numbers = all(number_of(name) is not None for name in names)
    return "; if they are numbers to predict: kind: regress" if numbers and kind.has_classes else ""


def _without_variants(names: Sequence[str], counts: Counter[str]) -> list[str]:
    """Keep the most frequent of labels that differ only in capitals and surrounding spaces."""
    best: dict[str, str] = {}
    for name in sorted(names, key=lambda name: (-counts[name], name != name.strip(), name)):
        best.setdefault(same_label(name), name)
    return list(best.values())


def _sorted(names: Sequence[str]) -> tuple[str, ...]:
    numbers = {name: number_of(name) for name in names}
    if all(number is not None for number in numbers.values()):
        return tuple(sorted(names, key=lambda name: (numbers[name] or 0.0, name)))
    return tuple(sorted(names))
