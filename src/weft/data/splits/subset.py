"""A part of a split, chosen by a seed: a share of its rows, a part cut off to validate on, or two halves.

Rows that are judged together (`Split.groups`, such as the answers to one question of MultiRC) stay together:
what is drawn is groups. Without groups every row is one by itself.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import fields, replace
from typing import Any

import numpy as np

from weft.data.splits.split import Split
from weft.errors import WeftError
from weft.tasks.kinds import KINDS
from weft.utils.counter_rng import draw_key
from weft.utils.permutation import permute


def rows_of(split: Split, rows: Sequence[int]) -> Split:
    """The split with these of its rows alone, in this order; its lists and arrays have an entry a row."""
    changed: dict[str, Any] = {}
    for field in fields(split):
        value = getattr(split, field.name)
        if isinstance(value, list):
            changed[field.name] = [value[i] for i in rows]
        elif isinstance(value, np.ndarray):
            changed[field.name] = value[list(rows)]
    return replace(split, **changed)


def share_of(split: Split, share: float, seed: int) -> Split:
    """⌈share·n⌉ of a split's n rows, in the order of the file; with groups, the fewest that hold so many.

    They are the first of an order that (seed, task) decides: a smaller share lies inside a larger one.

    Args:
        split: the split.
        share: more than 0, at most 1.
        seed: of the order.
    """
    if share == 1:
        return split
    return rows_of(split, sorted(_first(split, share, seed, "fraction")))


def cut(split: Split, share: float, seed: int) -> tuple[Split, Split]:
    """A split in two: what is left of it, and ⌈share·n⌉ rows to validate on, both in the order of the file.

    Args:
        split: two rows or more; with groups, two groups or more.
        share: of the second part, between 0 and 1.
        seed: of the choice, which no `share_of` changes.
    """
    _check_two(split, "a part of them is cut off to validate on", "a validation file")
    taken = set(_first(split, share, seed, "validation", leave=1))
    left = [i for i in range(len(split)) if i not in taken]
    return rows_of(split, left), replace(rows_of(split, sorted(taken)), split="validation")


def halves(split: Split, seed: int) -> tuple[Split, Split]:
    """A split in two halves, to choose a model on the one (`validation`) and to report on the other (`test`).

    The rows, in an order that (seed, task) decides, go one by one to the half that has fewer: so the sizes
    differ by one at the most, with groups by the size of the largest. Labels are not looked at.

    Args:
        split: two rows or more; with groups, two groups or more.
        seed: of the choice, which no `share_of` or `cut` changes.
    """
    _check_two(
        split, "they are cut into halves, to choose on one and to report on the other", "halves: false"
    )
    first: list[int] = []
    second: list[int] = []
    for group in _in_order(split, seed, "halves"):
        (first if len(first) <= len(second) else second).extend(group)
    return (
        replace(rows_of(split, sorted(first)), split="validation"),
        replace(rows_of(split, sorted(second)), split="test"),
    )


def without_rows(split: Split) -> list[str]:
    """The task's labels that no row of the split has; none of a task without labels."""
    counts = KINDS[split.task.kind]().label_facts(split.labels or [], split.task) if split.task.labels else {}
    return [name for name in split.task.labels if not counts.get(name)]


def _first(split: Split, share: float, seed: int, purpose: str, leave: int = 0) -> list[int]:
    """The first ⌈share·n⌉ rows of the order that belongs to (seed, purpose, task), in whole groups.

    Args:
        split: n rows.
        share: of them.
        seed: of the order.
        purpose: of the order.
        leave: how many groups are not taken, whatever the share.
    """
    count = max(1, math.ceil(share * len(split) - 1e-9))  # 0.07·100 is a little more than 7
    groups = list(_in_order(split, seed, purpose))
    taken: list[int] = []
    for group in groups[: len(groups) - leave]:
        if len(taken) >= count:
            break
        taken.extend(group)
    return taken


def _in_order(split: Split, seed: int, purpose: str) -> Iterator[list[int]]:
    """The rows of each group, the groups in the order that belongs to (seed, purpose, task)."""
    groups = _groups(split)
    order = permute(np.arange(len(groups)), len(groups), draw_key(seed, purpose, split.task.name))
    return (groups[int(i)] for i in order)


def _groups(split: Split) -> list[list[int]]:
    """The rows of each group, by its first row."""
    if split.groups is None:
        return [[i] for i in range(len(split))]
    rows: dict[object, list[int]] = {}
    for i, name in enumerate(split.groups):
        rows.setdefault(name, []).append(i)
    return list(rows.values())


def _check_two(split: Split, why: str, instead: str) -> None:
    found = len(split) if split.groups is None else len(set(split.groups))
    if found < 2:
        what = "row" if split.groups is None else "group of rows that are judged together"
        raise WeftError(
            f"{split.source}: {found} {what}; expected two or more, since {why}: give task "
            f"{split.task.name!r} more rows, or {instead}"
        )
