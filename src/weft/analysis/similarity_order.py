"""The order of the tasks of a similarity; without torch, so that a wrong order is reported at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from weft.errors import WeftError, did_you_mean

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from weft.analysis.similarity import Similarity

CLUSTERED, GIVEN, PAPER = ORDERS = ("clustered", "given", "paper")
"""Similar tasks side by side; as in the model; in blocks of their kind, as in the paper's figure."""


def read_order(text: str) -> str | tuple[str, ...]:
    """Parse one of `ORDERS`, or a comma-separated list of tasks, each once."""
    if "," not in text:
        if text not in ORDERS:
            raise WeftError(
                f"order {text!r} does not exist; {did_you_mean(text, ORDERS)}; or all tasks, such as a,b,c"
            )
        return text
    names = tuple(name.strip() for name in text.split(","))
    for name in names:
        if not name:
            raise WeftError(f"order {text!r} has an empty name; expected all tasks, such as a,b,c")
        if names.count(name) > 1:
            raise WeftError(f"order {text!r} names the task {name!r} twice")
    return names


def ordered(similarity: Similarity, order: str | Sequence[str]) -> Similarity:
    """Return the similarities in this order of the tasks: one of `ORDERS`, or the names of all tasks."""
    if order == GIVEN:
        return similarity
    if order == CLUSTERED:
        return similarity.in_order([similarity.tasks[index] for index in clustered(_overall(similarity))])
    if order == PAPER:
        return similarity.in_order(in_blocks(similarity.tasks))
    names = [order] if isinstance(order, str) else list(order)
    for name in names:
        if name not in similarity.tasks:
            raise WeftError(
                f"order: task {name!r} is not in this model; {did_you_mean(name, similarity.tasks)}"
            )
    missing = [name for name in similarity.tasks if name not in names]
    if missing or len(names) > len(similarity.tasks):
        lacks = f"it lacks {', '.join(missing)}" if missing else "it names some twice"
        raise WeftError(f"order: expected all {len(similarity.tasks)} tasks of the model, each once; {lacks}")
    return similarity.in_order(names)


def clustered(similarities: NDArray[np.float64]) -> list[int]:
    """Return the indices of the tasks, with similar tasks side by side.

    These are the leaves of the tree that average linkage builds from the distances 1 − S, ordered so that
    neighbors are as close as possible. Of the two directions, the one that starts with the smaller index is
    returned.

    Args:
        similarities: S [T, T]; undefined ones count as 0.
    """
    from scipy.cluster.hierarchy import leaves_list, linkage
    from scipy.spatial.distance import squareform

    defined = np.nan_to_num(similarities, nan=0.0)
    # equal trees for numbers that differ only by rounding
    distances = np.round(1.0 - (defined + defined.T) / 2, 12)
    np.fill_diagonal(distances, 0.0)
    tree = linkage(squareform(distances), method="average", optimal_ordering=True)
    indices = [int(leaf) for leaf in leaves_list(tree)]
    return indices if indices[0] < indices[-1] else indices[::-1]


def blocks_of(tasks: Sequence[str]) -> dict[str, list[str]]:
    """The tasks by their kind, as in the first suite that has them all; {} if none has.

    Example:
        >>> blocks_of(["rte", "cola", "mnli"])
        {'single sentence': ['cola'], 'inference': ['mnli', 'rte']}
    """
    from weft.suites import suite_blocks

    for blocks in suite_blocks().values():
        if set(tasks) <= {name for block in blocks.values() for name in block}:
            kept = {kind: [name for name in block if name in tasks] for kind, block in blocks.items()}
            return {kind: names for kind, names in kept.items() if names}
    return {}


def in_blocks(tasks: Sequence[str]) -> list[str]:
    """The tasks in blocks of their kind, as in the first suite that has them all."""
    from weft.suites import suite_blocks

    blocks = blocks_of(tasks)
    if blocks:
        return [name for block in blocks.values() for name in block]
    suites = suite_blocks()
    suite_tasks = {name for blocks in suites.values() for block in blocks.values() for name in block}
    strange = next((name for name in tasks if name not in suite_tasks), None)
    why = "its tasks are of several suites" if strange is None else f"the task {strange!r} is in none of them"
    raise WeftError(
        f"order 'paper' is for the tasks of one suite ({', '.join(suites)}), but {why}; "
        f"use {CLUSTERED}, {GIVEN}, or all tasks separated by commas: {','.join(tasks)}"
    )


def _overall(similarity: Similarity) -> NDArray[np.float64]:
    """The mean of the weights' and the biases' averages, [T, T]: one order serves both."""
    parts = [m for m in (similarity.average("weight"), similarity.average("bias")) if m is not None]
    defined = np.stack([~np.isnan(m) for m in parts]).sum(0)
    total = np.stack([np.nan_to_num(m, nan=0.0) for m in parts]).sum(0)
    return total / np.maximum(defined, 1)
