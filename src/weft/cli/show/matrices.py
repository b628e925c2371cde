"""Matrices of tasks by tasks, as tables."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from weft.cli.output import print_table

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

WIDTH = 120
"""A table is at most so wide; more columns are printed below."""

LONGEST_NAME = 60


def print_matrix(title: str, tasks: Sequence[str], matrix: NDArray[np.float64]) -> None:
    """A table of numbers in [-1, 1], two decimals; NaN is a dash.

    Where it would be too wide, it is several with some of the columns each: no number is cut.

    Args:
        title: above it.
        tasks: the T tasks.
        matrix: [T, T].
    """
    from weft.analysis.plots.heat_map import two_decimals

    undefined, dots = ("–", "…") if can_print("–…") else ("-", ".")
    names = [n if len(n) <= LONGEST_NAME else f"{n[: LONGEST_NAME - 1]}{dots}" for n in tasks]
    heads, blocks = names, _blocks(names, WIDTH - max(map(len, names)))
    if len(blocks) > 1:
        # numbers take less room than names, and tell apart those that begin alike
        heads = [str(place) for place in range(len(names))]
        names = [f"{place}:{name}" for place, name in enumerate(names)]
        blocks = _blocks(heads, WIDTH - max(map(len, names)))
    for place, columns in enumerate(blocks):
        rows = [
            [name, *(two_decimals(float(matrix[row, column]), undefined) for column in columns)]
            for row, name in enumerate(names)
        ]
        # not as the table's own title, which would be broken to the width of a narrow table
        print(f"{title}, continued" if place else title)
        print_table("", ["task", *(heads[column] for column in columns)], rows)


def can_print(text: str) -> bool:
    """Whether standard output knows these letters."""
    try:
        text.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _blocks(heads: list[str], width: int) -> list[list[int]]:
    """The numbers of the columns that stand in each table, two spaces in front of each of them."""
    blocks: list[list[int]] = []
    used = 0
    for place, head in enumerate(heads):
        needed = 2 + max(len(head), len("-1.00"))
        if not blocks or used + needed > width:
            blocks.append([])
            used = 0
        blocks[-1].append(place)
        used += needed
    return blocks
