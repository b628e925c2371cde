"""Duplicate examples, inside a split and across splits."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from weft.data.checks.report import Finding
from weft.data.splits.split import Split

SHOWN = 3
"""The maximal number of pairs of rows that a finding lists."""

Content = tuple[tuple[str, ...], tuple[tuple[int, int, int], ...]]
Hashes = NDArray[np.int64]


def duplicates(splits: dict[str, Split]) -> Iterator[Finding]:
    """Yield findings about equal texts: a note for train, a warning for each pair of splits that share some.

    Texts are compared exactly. Examples that occur in two splits make scores too good.

    Args:
        splits: the splits of one task by name.
    """
    hashes = {name: _hashes(split) for name, split in splits.items()}
    if "train" in splits:
        yield from _inside(splits["train"], hashes["train"])
    for earlier, later in combinations(splits, 2):
        yield from _across(splits[earlier], hashes[earlier], splits[later], hashes[later])


def _content(split: Split, i: int) -> Content:
    """The content of an example: its texts and marks."""
    return split.texts[i], () if split.marks is None else split.marks[i]


def _hashes(split: Split) -> Hashes:
    """A number per example, [n]; equal contents have equal numbers. A set of contents would be far larger."""
    return np.fromiter((hash(_content(split, i)) for i in range(len(split))), np.int64, len(split))


def _first_rows(split: Split, which: NDArray[np.bool_]) -> dict[Content, int]:
    """Map the contents of some examples to the index of their first occurrence."""
    first: dict[Content, int] = {}
    for i in np.flatnonzero(which).tolist():
        first.setdefault(_content(split, i), i)
    return first


def _inside(split: Split, hashes: Hashes) -> Iterator[Finding]:
    # only examples whose hash occurs twice can be equal
    order = np.sort(hashes)
    twice = np.isin(hashes, order[1:][order[1:] == order[:-1]])
    first = _first_rows(split, twice)
    found = ((first[_content(split, i)], i) for i in np.flatnonzero(twice).tolist())
    repeats = [(i, j) for i, j in found if i != j]
    if not repeats:
        return
    pairs = [f"{_units(split)} {split.row[i]} and {split.row[j]}" for i, j in repeats[:SHOWN]]
    message = f"{_rows(len(repeats))} the text of an earlier one ({_listed(pairs, len(repeats))})"
    labels = split.labels
    if labels is not None and (conflicting := [(i, j) for i, j in repeats if labels[i] != labels[j]]):
        i, j = conflicting[0]
        rows = f"{_units(split)} {split.row[i]} and {split.row[j]}"
        message += f", {len(conflicting)} of them with a different label (first {rows})"
    yield Finding(
        "note", split.task.name, split.split, split.source, None, None, len(repeats), message, split.unit
    )


def _across(earlier: Split, hashes: Hashes, later: Split, hashes_of_later: Hashes) -> Iterator[Finding]:
    first = _first_rows(earlier, np.isin(hashes, hashes_of_later))
    candidates = np.flatnonzero(np.isin(hashes_of_later, hashes)).tolist()
    shared = [(first[content], j) for j in candidates if (content := _content(later, j)) in first]
    if not shared:
        return
    names = [Path(split.source).name for split in (earlier, later)]
    if names[0] == names[1]:
        names = [earlier.source, later.source]
    pairs = [
        f"{names[0]} {earlier.unit} {earlier.row[i]} and {names[1]} {later.unit} {later.row[j]}"
        for i, j in shared[:SHOWN]
    ]
    message = (
        f"{_rows(len(shared))} a text of {earlier.split!r} ({_listed(pairs, len(shared))}); "
        f"remove them from one of the two, or the score on {later.split!r} is too good"
    )
    yield Finding(
        "warning", earlier.task.name, later.split, later.source, None, None, len(shared), message, later.unit
    )


def _units(split: Split) -> str:
    return "indices" if split.unit == "index" else f"{split.unit}s"


def _rows(count: int) -> str:
    return "1 row repeats" if count == 1 else f"{count} rows repeat"


def _listed(pairs: list[str], count: int) -> str:
    return "; ".join(pairs) + (f"; … and {count - len(pairs)} more" if count > len(pairs) else "")
