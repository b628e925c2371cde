"""Random parts of a split: a share of its rows, a part for validation, or two halves.

Rows that are judged together (`Split.groups`, such as the answers to one question of MultiRC) stay together:
whole groups are drawn. Without groups every row is a group.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import fields, replace
from typing import Any

import numpy as np

from weft.data.splits.packed_texts import PackedTexts
from weft.data.splits.split import Split
from weft.errors import WeftError
from weft.tasks.kinds import KINDS
from weft.utils.counter_rng import draw_key
from weft.utils.permutation import permute


def rows_of(split: Split, rows: Sequence[int]) -> Split:
    """Return the split with only these rows, in this order; its lists and arrays have one entry per row."""
    changed: dict[str, Any] = {}
    for field in fields(split):
        value = getattr(split, field.name)
        if isinstance(value, PackedTexts):
            changed[field.name] = PackedTexts(value[i] for i in rows)
        elif isinstance(value, list):
            changed[field.name] = [value[i] for i in rows]
        elif isinstance(value, np.ndarray):
            changed[field.name] = value[list(rows)]
    return replace(split, **changed)


def share_of(split: Split, share: float, seed: int) -> Split:
    """Return ⌈share·n⌉ of a split's n rows in the order of the file; with groups, as few groups as suffice.

    They are the first rows of an order that depends on (seed, task): a smaller share is a subset of a larger.

    Args:
        split: the split.
        share: more than 0, at most 1.
        seed: the random seed of the order.
    """
    if share == 1:
        return split
    return rows_of(split, sorted(_first(split, share, seed, "fraction")))


def cut(split: Split, share: float, seed: int) -> tuple[Split, Split]:
    """Split off ⌈share·n⌉ rows for validation; return the other rows and these, in the order of the file.

    Args:
        split: two rows or more; with groups, two groups or more.
        share: the share of the second part, between 0 and 1.
        seed: the random seed; the draws are independent of `share_of`.
    """
    _check_two(split, "a part of them is used for validation", "a validation file")
    taken = set(_first(split, share, seed, "validation", leave=1))
    left = [i for i in range(len(split)) if i not in taken]
    return rows_of(split, left), replace(rows_of(split, sorted(taken)), split="validation")


def halves(split: Split, seed: int) -> tuple[Split, Split]:
    """Divide a split into two halves, `validation` for model selection and `test` for reporting.

    The rows, in an order that depends on (seed, task), go one by one to the smaller half. The sizes differ by
    at most one, with groups by at most the size of the largest group. Labels are not considered.

    Args:
        split: two rows or more; with groups, two groups or more.
        seed: the random seed; the draws are independent of `share_of` and `cut`.
    """
    _check_two(split, "they are halved, for model selection and for reporting", "halves: false")
    first: list[int] = []
    second: list[int] = []
    for group in _in_order(split, seed, "halves"):
        (first if len(first) <= len(second) else second).extend(group)
    return (
        replace(rows_of(split, sorted(first)), split="validation"),
        replace(rows_of(split, sorted(second)), split="test"),
    )


def without_rows(split: Split) -> list[str]:
    """Return the task's labels that no row of the split has; empty for a task without labels."""
    counts = KINDS[split.task.kind]().label_facts(split.labels or [], split.task) if split.task.labels else {}
    return [name for name in split.task.labels if not counts.get(name)]


def _first(split: Split, share: float, seed: int, purpose: str, leave: int = 0) -> list[int]:
    """Return the first ⌈share·n⌉ rows of the order of (seed, purpose, task), in whole groups.

    Args:
        split: n rows.
        share: the share of the rows.
        seed: the random seed of the order.
        purpose: the purpose of the order; different purposes have independent orders.
        leave: the number of groups that are never taken.
    """
    count = max(1, math.ceil(share * len(split) - 1e-9))  # 0.07·100 is slightly more than 7 in floating point
    groups = list(_in_order(split, seed, purpose))
    taken: list[int] = []
    for group in groups[: len(groups) - leave]:
        if len(taken) >= count:
            break
        taken.extend(group)
    return taken


def _in_order(split: Split, seed: int, purpose: str) -> Iterator[list[int]]:
    """Return the rows of each group, with groups in the order of (seed, purpose, task)."""
    groups = _groups(split)
    order = permute(np.arange(len(groups)), len(groups), draw_key(seed, purpose, split.task.name))
    return (groups[int(i)] for i in order)


def _groups(split: Split) -> list[list[int]]:
    """Return the rows of each group, groups ordered by their first row."""
    if split.groups is None:
        return [[i] for i in range(len(split))]
    rows: dict[object, list[int]] = {}
    for i, name in enumerate(split.groups):
        rows.setdefault(name, []).append(i)
    return list(rows.values())


def _check_two(split: Split, why: str, instead: str) -> None:
    count = len(split) if split.groups is None else len(set(split.groups))
    if count < 2:
        unit = "row" if split.groups is None else "group of rows that are judged together"
        raise WeftError(
            f"{split.source}: {count} {unit}; expected two or more, because {why}: add rows to task "
            f"{split.task.name!r}, or use {instead}"
        )
