"""Printing matrices of tasks by tasks as tables."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from weft.cli.output import print_table

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

WIDTH = 120
"""The largest width of a table; further columns are printed as a second table below."""

LONGEST_NAME = 60
"""Longer names of tasks are shortened to this many characters."""


def print_matrix(title: str, tasks: Sequence[str], matrix: NDArray[np.float64]) -> None:
    """Print a table of numbers in [-1, 1] with two decimals; NaN is printed as a dash.

    A matrix that is too wide is printed as several tables, each with some of the columns.

    Args:
        title: the line above the table.
        tasks: the T tasks.
        matrix: [T, T].
    """
    from weft.analysis.plots.heat_map import two_decimals

    undefined, dots = ("–", "…") if can_print("–…") else ("-", ".")
    names = [n if len(n) <= LONGEST_NAME else f"{n[: LONGEST_NAME - 1]}{dots}" for n in tasks]
    heads, blocks = names, _blocks(names, WIDTH - max(map(len, names)))
    if len(blocks) > 1:
        # numbers are shorter than names, and unique where shortened names are not
        heads = [str(place) for place in range(len(names))]
        names = [f"{place}:{name}" for place, name in enumerate(names)]
        blocks = _blocks(heads, WIDTH - max(map(len, names)))
    for place, columns in enumerate(blocks):
        rows = [
            [name, *(two_decimals(float(matrix[row, column]), undefined) for column in columns)]
            for row, name in enumerate(names)
        ]
        part_title = f"{title}, continued" if place else title
        print_table(part_title, ["task", *(heads[column] for column in columns)], rows)


def can_print(text: str) -> bool:
    """Whether the encoding of standard output has these characters."""
    try:
        text.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _blocks(heads: list[str], width: int) -> list[list[int]]:
    """The numbers of the columns of each table, with two spaces before each column."""
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
