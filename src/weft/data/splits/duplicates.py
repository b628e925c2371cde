"""Rows that say the same, inside a split and across splits."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from pathlib import Path

from weft.data.checks.report import Finding
from weft.data.splits.split import Split

SHOWN = 3
"""How many pairs of rows a finding names."""

Said = tuple[tuple[str, ...], tuple[tuple[int, int, int], ...]]
First = dict[Said, int]


def duplicates(splits: dict[str, Split]) -> Iterator[Finding]:
    """Findings about equal texts: a note for train, a warning for each two splits that share some.

    Texts are compared as they are. What is in two splits makes a score better than it is.

    Args:
        splits: the splits of one task by name.
    """
    seen = {name: _first_rows(split) for name, split in splits.items()}
    if "train" in splits:
        yield from _inside(splits["train"], seen["train"])
    for one, other in combinations(splits, 2):
        yield from _across(splits[one], seen[one], splits[other])


def _first_rows(split: Split) -> First:
    """What an example says → its first row's index."""
    first: First = {}
    for i, said in enumerate(_said(split)):
        first.setdefault(said, i)
    return first


def _said(split: Split) -> list[Said]:
    """What each example says: its texts, and what is marked in them."""
    return list(zip(split.texts, split.marks or [()] * len(split), strict=True))


def _inside(split: Split, first: First) -> Iterator[Finding]:
    again = [(first[said], i) for i, said in enumerate(_said(split)) if first[said] != i]
    if not again:
        return
    pairs = [f"{split.unit}s {split.row[i]} and {split.row[j]}" for i, j in again[:SHOWN]]
    message = f"{_rows(len(again))} the text of an earlier one ({_listed(pairs, len(again))})"
    labels = split.labels
    if labels is not None and (other := [(i, j) for i, j in again if labels[i] != labels[j]]):
        i, j = other[0]
        rows = f"{split.unit}s {split.row[i]} and {split.row[j]}"
        message += f", {len(other)} of them with another label (first {rows})"
    yield Finding(
        "note", split.task.name, split.split, split.source, None, None, len(again), message, split.unit
    )


def _across(one: Split, first: First, other: Split) -> Iterator[Finding]:
    shared = [(first[said], j) for j, said in enumerate(_said(other)) if said in first]
    if not shared:
        return
    names = [Path(split.source).name for split in (one, other)]
    if names[0] == names[1]:
        names = [one.source, other.source]
    pairs = [
        f"{names[0]} {one.unit} {one.row[i]} and {names[1]} {other.unit} {other.row[j]}"
        for i, j in shared[:SHOWN]
    ]
    message = (
        f"{_rows(len(shared))} a text of {one.split!r} ({_listed(pairs, len(shared))}); "
        f"take them out of one of the two, or the score on {other.split!r} is too good"
    )
    yield Finding(
        "warning", one.task.name, other.split, other.source, None, None, len(shared), message, other.unit
    )


def _rows(count: int) -> str:
    return "1 row repeats" if count == 1 else f"{count} rows repeat"


def _listed(pairs: list[str], count: int) -> str:
    return "; ".join(pairs) + (f"; … and {count - len(pairs)} more" if count > len(pairs) else "")
