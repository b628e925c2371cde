"""Duplicate examples, inside a split and across splits."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from pathlib import Path

from weft.data.checks.report import Finding
from weft.data.splits.split import Split

SHOWN = 3
"""The maximal number of pairs of rows that a finding lists."""

Content = tuple[tuple[str, ...], tuple[tuple[int, int, int], ...]]
First = dict[Content, int]


def duplicates(splits: dict[str, Split]) -> Iterator[Finding]:
    """Yield findings about equal texts: a note for train, a warning for each pair of splits that share some.

    Texts are compared exactly. Examples that occur in two splits make scores too good.

    Args:
        splits: the splits of one task by name.
    """
    seen = {name: _first_rows(split) for name, split in splits.items()}
    if "train" in splits:
        yield from _inside(splits["train"], seen["train"])
    for earlier, later in combinations(splits, 2):
        yield from _across(splits[earlier], seen[earlier], splits[later])


def _first_rows(split: Split) -> First:
    """Map the content of each example to the index of its first occurrence."""
    first: First = {}
    for i, content in enumerate(_contents(split)):
        first.setdefault(content, i)
    return first


def _contents(split: Split) -> list[Content]:
    """The content of each example: its texts and marks."""
    return list(zip(split.texts, split.marks or [()] * len(split), strict=True))


def _inside(split: Split, first: First) -> Iterator[Finding]:
    repeats = [(first[content], i) for i, content in enumerate(_contents(split)) if first[content] != i]
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


def _across(earlier: Split, first: First, later: Split) -> Iterator[Finding]:
    shared = [(first[content], j) for j, content in enumerate(_contents(later)) if content in first]
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
