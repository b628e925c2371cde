"""Choose a step's examples among candidates, by the model's uncertainty of each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from weft.errors import WeftError, did_you_mean

if TYPE_CHECKING:
    from weft.utils.counter_rng import Ints

RULES = ("code", "paper")

Floats = NDArray[np.float64]


def scores(measure: Floats, task: Ints, rule: str, proxy: Mapping[int, int]) -> Floats:
    """The score of each candidate, [C].

    With h the measure and h̄_t its mean over the candidates of task t,

        code:   score = h · h̄_t / max_t h̄_t
        paper:  score = h / max_t h̄_t    (eq. 3.4: the divisor is equal for all and does not affect the order)

    A task with a proxy uses the proxy's scores instead, position by position: its i-th candidate has the
    score of the proxy's i-th candidate, or 0 if the proxy has fewer. Measures of the task itself are ignored,
    also in the maximum. A candidate without a measure and without a proxy has the score 0.

    Args:
        measure: from 0; nan for a candidate of a task without a measure, [C].
        task: the task of each candidate, [C].
        rule: `code`, as in CA-MTL's code, or `paper`.
        proxy: task → the task whose scores it uses.
    """
    if rule not in RULES:
        raise WeftError(f"rule {rule!r} does not exist; {did_you_mean(rule, RULES)}")
    h = np.array(measure, np.float64)
    task = np.asarray(task, np.int64)
    count = int(task.max()) + 1
    h[np.isin(task, list(proxy))] = np.nan
    known = np.flatnonzero(np.isfinite(h))
    number = np.bincount(task[known], minlength=count)
    mean = np.bincount(task[known], h[known], minlength=count) / np.maximum(number, 1)  # [T]; 0 without any
    highest = mean.max()
    measured = np.zeros(len(h))
    if highest > 0:  # else the model is certain of everything
        measured[known] = h[known] / highest
        if rule == "code":
            measured[known] *= mean[task[known]]
    result = measured.copy()
    for target, source in proxy.items():
        to, of = np.flatnonzero(task == target), np.flatnonzero(task == source)
        shared = min(len(to), len(of))
        result[to[:shared]] = measured[of[:shared]]
    return result


def choose(measure: Floats, task: Ints, batch_size: int, rule: str, proxy: Mapping[int, int]) -> Ints:
    """The positions of the candidates that a step trains on, best first, [min(B, C)].

    Equal scores are ordered by position. If no candidate has a measure, tasks take turns: the first candidate
    of each, then the second.

    Args:
        measure: the model's uncertainty of each candidate, nan for kinds without a measure, [C].
        task: the task of each, [C].
        batch_size: the number of candidates to choose, B.
        rule: `code` or `paper`.
        proxy: task → the task whose scores it uses.
    """
    measure, task = np.asarray(measure, np.float64), np.asarray(task, np.int64)
    if measure.shape != task.shape or not len(task):
        raise WeftError(
            f"a choice needs a measure for each of one candidate or more; found {list(measure.shape)} "
            f"for {list(task.shape)}"
        )
    if not np.isfinite(measure).any():
        return np.argsort(position(task), kind="stable")[:batch_size]
    return np.argsort(-scores(measure, task, rule, proxy), kind="stable")[:batch_size]


def position(task: Ints) -> Ints:
    """The rank of each candidate among those of its task, from 0, [C]."""
    order = np.argsort(task, kind="stable")
    counts = np.bincount(task)
    position = np.empty(len(task), np.int64)
    position[order] = np.arange(len(task)) - np.repeat(np.cumsum(counts) - counts, counts)
    return position
