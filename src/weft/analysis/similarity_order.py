"""In which order the tasks of a similarity stand; without torch, so that a wrong order is told at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from weft.errors import WeftError, did_you_mean

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from weft.analysis.similarity import Similarity

CLUSTERED, GIVEN, PAPER = ORDERS = ("clustered", "given", "paper")
"""Similar tasks side by side; as in the model; in blocks of their kind, as the paper's figure has them."""


def read_order(text: str) -> str | tuple[str, ...]:
    """One of `ORDERS`, or the tasks of a comma list, none twice."""
    if "," not in text:
        if text not in ORDERS:
            raise WeftError(
                f"order {text!r} does not exist; {did_you_mean(text, ORDERS)}; or all tasks, as a,b,c"
            )
        return text
    names = tuple(name.strip() for name in text.split(","))
    for name in names:
        if not name:
            raise WeftError(f"order {text!r} has an empty place; expected all tasks, as a,b,c")
        if names.count(name) > 1:
            raise WeftError(f"order {text!r} names the task {name!r} twice")
    return names


def ordered(found: Similarity, order: str | Sequence[str]) -> Similarity:
    """The similarities with the tasks in this order: one of `ORDERS`, or all tasks' names."""
    if order == GIVEN:
        return found
    if order == CLUSTERED:
        return found.in_order([found.tasks[place] for place in clustered(_overall(found))])
    if order == PAPER:
        return found.in_order(in_blocks(found.tasks))
    names = [order] if isinstance(order, str) else list(order)
    for name in names:
        if name not in found.tasks:
            raise WeftError(f"order: task {name!r} is not in this model; {did_you_mean(name, found.tasks)}")
    missing = [name for name in found.tasks if name not in names]
    if missing or len(names) > len(found.tasks):
        lacks = f"it lacks {', '.join(missing)}" if missing else "it names some twice"
        raise WeftError(f"order: expected all {len(found.tasks)} tasks of the model, each once; {lacks}")
    return found.in_order(names)


def clustered(similarities: NDArray[np.float64]) -> list[int]:
    """The numbers of the tasks, similar ones side by side.

    The leaves of the tree that average linkage builds on the distances 1 − S, turned so that neighbours are
    as near as can be. Of the two directions it is the one that starts with the smaller number.

    Args:
        similarities: S [T, T]; undefined ones count as 0.
    """
    from scipy.cluster.hierarchy import leaves_list, linkage
    from scipy.spatial.distance import squareform

    known = np.nan_to_num(similarities, nan=0.0)
    # equal trees for numbers that differ by rounding alone
    distances = np.round(1.0 - (known + known.T) / 2, 12)
    np.fill_diagonal(distances, 0.0)
    tree = linkage(squareform(distances), method="average", optimal_ordering=True)
    places = [int(place) for place in leaves_list(tree)]
    return places if places[0] < places[-1] else places[::-1]


def in_blocks(tasks: Sequence[str]) -> list[str]:
    """The tasks in blocks of their kind, as the first suite that knows them all has it."""
    from weft.suites import suite_blocks

    suites = suite_blocks()
    for blocks in suites.values():
        flat = [name for block in blocks.values() for name in block]
        if set(tasks) <= set(flat):
            return [name for name in flat if name in tasks]
    known = {name for blocks in suites.values() for block in blocks.values() for name in block}
    strange = next((name for name in tasks if name not in known), None)
    why = "its tasks are of several suites" if strange is None else f"the task {strange!r} is in none"
    raise WeftError(
        f"order 'paper' is for the tasks of one suite ({', '.join(suites)}), and of this model {why}; "
        f"use {CLUSTERED}, {GIVEN}, or all tasks with commas between: {','.join(tasks)}"
    )


def _overall(found: Similarity) -> NDArray[np.float64]:
    """The mean of the weights' and the biases' averages, [T, T]: one order serves both."""
    parts = [m for m in (found.average("weight"), found.average("bias")) if m is not None]
    defined = np.stack([~np.isnan(m) for m in parts]).sum(0)
    total = np.stack([np.nan_to_num(m, nan=0.0) for m in parts]).sum(0)
    return total / np.maximum(defined, 1)
