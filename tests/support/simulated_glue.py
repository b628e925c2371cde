"""Row statistics of runs on GLUE: random answers, with the sizes and metrics of the validation sets."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import ndtri

from weft.evaluation.rows import RunRows, SetRows
from weft.metrics import METRICS
from weft.metrics.rows import Units

GLUE: dict[str, tuple[int, int, float, tuple[str, ...]]] = {
    "cola": (1_043, 2, 0.82, ("matthews",)),
    "mnli": (9_815, 3, 0.83, ("accuracy",)),
    "mnli:mm": (9_832, 3, 0.83, ("accuracy",)),
    "mrpc": (408, 2, 0.86, ("f1", "accuracy")),
    "qnli": (5_463, 2, 0.90, ("accuracy",)),
    "qqp": (10_000, 2, 0.89, ("accuracy", "f1")),
    "rte": (277, 2, 0.68, ("accuracy",)),
    "sst2": (872, 2, 0.92, ("accuracy",)),
    "stsb": (1_500, 1, 0.88, ("pearson", "spearman")),
}
"""Rows, labels (1: numbers), accuracy or correlation, metrics."""


def set_rows(metrics: tuple[str, ...], gold: Any, predictions: Any, groups: Any = None) -> SetRows:
    """Row statistics of one set, as an evaluation makes them."""
    declared = {name: METRICS[name].rows for name in metrics}
    return SetRows(
        len(gold),
        Units.of_groups(groups, len(gold)),
        "gold",
        {name: METRICS[name](gold, predictions, groups) for name in metrics},
        {name: rows.arrays(gold, predictions) for name, rows in declared.items() if rows is not None},
    )


def simulated_run(variant: int, seed: int, spread: float = 1.0) -> RunRows:
    """The row statistics of a run: rows have a difficulty, runs have noise."""
    sets = {}
    for number, (name, (count, labels, level, metrics)) in enumerate(GLUE.items()):
        rows = np.random.default_rng([number])  # the same for all runs
        run = np.random.default_rng([number, 1 + variant, 1 + seed])  # no zeros: [1, 0] and [1] are equal
        difficulty, noise = rows.normal(size=count), run.normal(size=count)
        if labels == 1:
            gold = np.round(rows.uniform(0, 5, count) * 5) / 5
            wrong = (difficulty + spread * noise) * 5 / 3.46 * np.sqrt(1 / level**2 - 1) / np.hypot(1, spread)
            predictions: Any = (gold + wrong).astype(np.float32)
        else:
            gold = rows.integers(0, labels, count)
            # the share `level` of all rows lies below this
            threshold = np.hypot(1, spread) * ndtri(level) + 0.03 * run.normal()
            right = difficulty + spread * noise < threshold
            predictions = np.where(right, gold, (gold + run.integers(1, labels, count)) % labels)
        sets[name] = set_rows(metrics, gold, predictions)
    return RunRows(sets)
