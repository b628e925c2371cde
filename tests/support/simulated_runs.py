"""Simulated comparisons: variants × seeds on the same rows, with noise from seeds, rows and both.

Runs are made as in the world and not from the formulas of `weft.experiments.statistics`. Every row has a
difficulty that all runs share and one for each variant. Every seed shifts a run as a whole and disturbs
single rows; runs of two variants with the same seed share a part of both (initialization, order of the data).
An answer is right if the sum of all this is above a threshold. The true accuracy of a variant, over all seeds
and all rows, is then known:

    margin[v, s, r] = μ_v + b·β[r] + g·γ[v, r] + a·α[v, s] + e·ε[v, s, r],    right: margin > 0
    accuracy_v = Φ(μ_v/√(b² + g² + a² + e²))
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from tests.support.simulated_glue import set_rows
from weft.evaluation.rows import RunRows


@dataclass(frozen=True)
class World:
    """The sizes of the effects.

    Attributes:
        difficulty: b, of rows for all runs.
        by_variant: g, of rows for the runs of one variant: the row part of differences.
        shift: a, of seeds on all rows.
        noise: e, of seeds on single rows.
        common: the share of the variance of a seed's effects that variants have in common.
    """

    difficulty: float = 1.0
    by_variant: float = 0.5
    shift: float = 0.05
    noise: float = 0.5
    common: float = 0.3

    @property
    def spread(self) -> float:
        """The standard deviation of a margin."""
        return float(np.sqrt(self.difficulty**2 + self.by_variant**2 + self.shift**2 + self.noise**2))

    def threshold(self, accuracy: float) -> float:
        """μ of a variant with this true accuracy."""
        return float(ndtri(accuracy)) * self.spread

    def accuracy(self, threshold: float) -> float:
        """The true accuracy of a variant with this μ."""
        return float(ndtr(threshold / self.spread))


WORLDS = {
    "seeds": World(by_variant=0.05, shift=0.25, noise=0.3),
    "rows": World(by_variant=0.9, shift=0.01, noise=0.15),
    "balanced": World(by_variant=0.5, shift=0.07, noise=0.5),
    "flips": World(by_variant=0.0, shift=0.0, noise=0.8),
}
"""Noise that comes from seeds, from rows, from both, and from seeds that change single answers only."""


def margins(draw: np.random.Generator, world: World, variants: int, seeds: int, rows: int) -> NDArray[Any]:
    """Margins without μ, [variants, seeds, rows]."""

    def seed_effect(*shape: int) -> NDArray[Any]:
        shared, apart = draw.normal(size=(1, *shape)), draw.normal(size=(variants, *shape))
        return np.sqrt(world.common) * shared + np.sqrt(1 - world.common) * apart

    return (
        world.difficulty * draw.normal(size=rows)
        + world.by_variant * draw.normal(size=(variants, 1, rows))
        + world.shift * seed_effect(seeds, 1)
        + world.noise * seed_effect(seeds, rows)
    )


def labelled(
    draw: np.random.Generator,
    world: World,
    accuracies: Sequence[float],
    seeds: int,
    rows: int,
    metrics: tuple[str, ...] = ("accuracy",),
    groups: Any = None,
) -> list[list[Any]]:
    """The row statistics of a task with two labels, by variant and seed."""
    gold = (draw.random(rows) < 0.4).astype(int)
    thresholds = np.array([world.threshold(accuracy) for accuracy in accuracies])
    right = margins(draw, world, len(accuracies), seeds, rows) + thresholds[:, None, None] > 0
    answers = np.where(right, gold, 1 - gold)
    return [[set_rows(metrics, gold, answer, groups) for answer in of_variant] for of_variant in answers]


def graded(
    draw: np.random.Generator, world: World, variants: int, seeds: int, rows: int, grades: int = 26
) -> list[list[Any]]:
    """The row statistics of a task with numbers: a shift of a seed changes how wrong all its answers are."""
    gold = draw.integers(0, grades, rows) / 5
    quiet = World(world.difficulty, world.by_variant, 0.0, world.noise, world.common)
    wrong = margins(draw, quiet, variants, seeds, rows)
    shared, apart = draw.normal(size=(1, seeds, 1)), draw.normal(size=(variants, seeds, 1))
    effect = np.sqrt(world.common) * shared + np.sqrt(1 - world.common) * apart
    answers = gold + wrong * np.exp(world.shift * effect)
    return [[set_rows(("spearman", "pearson"), gold, answer) for answer in of] for of in answers]


def runs_of(tasks: dict[str, list[list[Any]]]) -> dict[str, dict[int, RunRows]]:
    """Variant → seed → run, from the row statistics of each task by variant and seed."""
    first = next(iter(tasks.values()))
    return {
        f"v{variant}": {
            seed: RunRows({name: rows[variant][seed] for name, rows in tasks.items()})
            for seed in range(len(first[variant]))
        }
        for variant in range(len(first))
    }
