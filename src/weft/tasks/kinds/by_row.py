"""The targets of a batch's rows, from those of its examples."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from weft.errors import WeftError
from weft.tasks.kinds.kind import Places


def by_row(values: Sequence[Any], mine: Sequence[bool], places: Places, stand_in: Any) -> list[Any]:
    """The targets of each row, R of them, from a list a row that every example of this kind has."""
    rows = Counter(places.example)
    for number, (value, own) in enumerate(zip(values, mine, strict=True)):
        if own and len(value) != rows[number]:
            raise WeftError(
                f"example {number}: {len(value)} targets for {rows[number]} rows; expected one for each row"
            )
    taken = [0] * len(values)
    found = []
    for example in places.example:
        if example < len(mine) and mine[example]:  # rows to fill up a batch are of no example
            found.append(values[example][taken[example]])
            taken[example] += 1
        else:
            found.append(stand_in)
    return found
