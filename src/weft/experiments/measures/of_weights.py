"""Measures that need the weights of a run or its data: similarities of tasks, difficulty, storage."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weft.errors import WeftError
from weft.experiments.measures.of_log import Value

if TYPE_CHECKING:
    from numpy.typing import NDArray

BLOCK_MEANS = ("within", "between", "apart", "mean")
PAIRS = "pairs"
TIMES = " × "
"""What joins the names of two tasks."""
DIGITS = 5
"""The decimals of a cosine of two tasks: a record has up to a few hundred of them."""


def difficulty(folder: Path) -> dict[str, Value]:
    """EDM of each classification task, from the training rows."""
    from weft.analysis.difficulty_of_tasks import difficulty_of_tasks
    from weft.config import load_run

    done = difficulty_of_tasks(load_run(folder / "run.yaml").tasks, "train")
    return {"difficulty": {name: float(value.total) for name, value in done.difficulties.items()}}


def storage(folder: Path) -> dict[str, Value]:
    """Incremental and bundled storage; with the report's number for the encoder if it is a BERT-base."""
    from weft.bundle.load import load
    from weft.model.accounting.storage import storage as storage_of

    done = storage_of(load(folder))
    counted = done["paper"] or done
    return {name: counted[name]["parameters"] / 1e6 for name in ("incremental", "bundled")}


def covariance(folder: Path) -> dict[str, Value]:
    """CovSim on validation rows: the mean of each task with the others, and the matrix.

    The matrix is symmetric: every pair once. Of a task with itself it is not 1, but says how few directions
    the task's inputs have.
    """
    from weft.workflows.covariance import covariance_of_runs

    done = covariance_of_runs([folder], tell=lambda _: None)
    own = dict(zip(done.tasks, map(float, done.matrix.diagonal()), strict=True))
    return {
        "covariance": dict(zip(done.tasks, map(float, done.averages), strict=True)),
        f"covariance_{PAIRS}": pairs_of(done.tasks, done.matrix),
        "covariance_self": {task: round(value, DIGITS) for task, value in own.items()},
    }


def similarity(folder: Path) -> dict[str, Value]:
    """The cosines of the tasks' updates, means over layers, for every kind of map that is updated.

    Those of weights are named after the kind, `query_pairs`; those of biases too, `ffn_in_bias_pairs`. Beside
    the pairs are their means within kinds of tasks, between kinds, and over all; see `block_means`.

    There is no value if no task has an update (L0 has removed all of them), or if updates are not finite.
    """
    from weft.analysis.similarity import PARTS
    from weft.analysis.similarity import similarity as similarity_of
    from weft.bundle.load import load

    try:
        done = similarity_of(load(folder))
    except WeftError:
        return {}
    values: dict[str, Value] = {}
    for kind in done.kinds:
        for part in PARTS:
            matrix = done.average(part, kind)
            if matrix is not None:
                name = of_updates(kind, part)
                values |= {f"{name}_{key}": x for key, x in block_means(done.tasks, matrix).items()}
                values[f"{name}_{PAIRS}"] = pairs_of(done.tasks, matrix)
    return values


def of_updates(kind: str, part: str) -> str:
    """The name of the similarities of updates of one kind of map.

    Args:
        kind: the kind of site; see `weft.encoder.sites`.
        part: `weight` or `bias`.
    """
    return kind if part == "weight" else f"{kind}_{part}"


def pairs_of(tasks: Sequence[str], matrix: NDArray[Any]) -> dict[str, float]:
    """The entries of a symmetric matrix [T, T] by the names of two tasks; each pair once."""
    return {
        f"{second}{TIMES}{first}": round(float(matrix[i, j]), DIGITS)
        for i, first in enumerate(tasks)
        for j, second in enumerate(tasks[:i])
    }


def block_means(tasks: Sequence[str], matrix: NDArray[Any]) -> dict[str, float]:
    """The means of a matrix [T, T] over pairs of tasks.

    `within`: of one block of their suite; `between`: of two; `apart`: of the first block and another, as of a
    single sentence and a pair in GLUE; `mean`: all.
    """
    import numpy as np

    from weft.suites import suite_blocks

    block = {
        task: (suite, name)
        for suite, blocks in suite_blocks().items()
        for name, members in blocks.items()
        for task in members
        if set(tasks) <= {t for others in blocks.values() for t in others}
    }
    first_block = next(iter(dict.fromkeys(name for _, name in block.values())), None)
    apart = {task for task in tasks if block and block[task][1] == first_block}
    pairs: dict[str, list[float]] = {key: [] for key in BLOCK_MEANS}
    for i, first in enumerate(tasks):
        for j, second in enumerate(tasks[:i]):
            if np.isnan(matrix[i, j]):
                continue
            pairs["mean"].append(float(matrix[i, j]))
            if block:
                pairs["within" if block[first] == block[second] else "between"].append(float(matrix[i, j]))
            if (first in apart) != (second in apart):
                pairs["apart"].append(float(matrix[i, j]))
    return {key: sum(values) / len(values) for key, values in pairs.items() if values}
