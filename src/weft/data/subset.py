"""A part of a split, chosen by a seed: a share of its rows, or a part cut off to validate on."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from weft.data.split import Split
from weft.errors import WeftError
from weft.sampling.draws import draw_key
from weft.sampling.permutation import permute


def rows_of(split: Split, rows: Sequence[int]) -> Split:
    """The split with these of its rows alone, in this order."""
    labels = None if split.labels is None else [split.labels[i] for i in rows]
    return replace(split, texts=[split.texts[i] for i in rows], labels=labels, row=split.row[list(rows)])


def share_of(split: Split, share: float, seed: int) -> Split:
    """⌈share·n⌉ of a split's n rows, in the order of the file.

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
        split: two rows or more.
        share: of the second part, between 0 and 1.
        seed: of the choice, which no `share_of` changes.
    """
    if len(split) < 2:
        raise WeftError(
            f"{split.source}: {len(split)} row; expected two or more, since a part of them is cut off to "
            f"validate on: give task {split.task.name!r} more rows, or a validation file"
        )
    taken = set(_first(split, share, seed, "validation")[: len(split) - 1])
    left = [i for i in range(len(split)) if i not in taken]
    return rows_of(split, left), replace(rows_of(split, sorted(taken)), split="validation")


def without_rows(split: Split) -> list[str]:
    """The task's labels that no row of the split has; none of a task without labels."""
    found: list[Any] = split.labels or []
    have = set(found) if split.task.labels else set()
    return [name for number, name in enumerate(split.task.labels) if number not in have]


def _first(split: Split, share: float, seed: int, purpose: str) -> list[int]:
    """The first ⌈share·n⌉ rows of the order that belongs to (seed, purpose, task)."""
    count = max(1, math.ceil(share * len(split) - 1e-9))  # 0.07·100 is a little more than 7
    order = permute(np.arange(count), len(split), draw_key(seed, purpose, split.task.name))
    return [int(i) for i in order]
