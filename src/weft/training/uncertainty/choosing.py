"""Which of the candidates a step takes, by how unsure the model is of each."""

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
        paper:  score = h / max_t h̄_t    (eq. 3.4: the divisor is the same for all and changes no order)

    A task with a proxy takes the proxy's scores instead, position by position: its i-th candidate has the
    score of the proxy's i-th or, where the proxy has fewer, 0. What is known of it itself is not looked at,
    nor is it among the tasks of the maximum. A candidate without a measure and without a proxy has 0.

    Args:
        measure: from 0 to 1, nan for a candidate of a task without one, [C].
        task: the task of each candidate, [C].
        rule: `code`, as CA-MTL's code has it, or `paper`.
        proxy: task → the task whose scores it takes.
    """
    if rule not in RULES:
        raise WeftError(f"rule {rule!r} does not exist; {did_you_mean(rule, RULES)}")
    h = np.array(measure, np.float64)
    task = np.asarray(task, np.int64)
    count = int(task.max()) + 1
    h[np.isin(task, list(proxy))] = np.nan
    known = np.flatnonzero(np.isfinite(h))
    number = np.bincount(task[known], minlength=count)
    mean = np.bincount(task[known], h[known], minlength=count) / np.maximum(number, 1)  # [T]; 0 of none
    highest = mean.max()
    found = np.zeros(len(h))
    if highest > 0:  # else the model is sure of everything
        found[known] = h[known] / highest
        if rule == "code":
            found[known] *= mean[task[known]]
    own = found.copy()
    for one, other in proxy.items():
        mine, theirs = np.flatnonzero(task == one), np.flatnonzero(task == other)
        shared = min(len(mine), len(theirs))
        found[mine[:shared]] = own[theirs[:shared]]
    return found


def choose(measure: Floats, task: Ints, batch_size: int, rule: str, proxy: Mapping[int, int]) -> Ints:
    """The places of the candidates that a step takes, best first, [min(B, C)]; of equals the lower place.

    Where no candidate has a measure, nothing tells them apart: tasks then take turns, the first candidate of
    each, then the second.

    Args:
        measure: how unsure the model is of each, nan where it cannot tell, [C].
        task: the task of each, [C].
        batch_size: how many to take, B.
        rule: `code` or `paper`.
        proxy: task → the task whose scores it takes.
    """
    measure, task = np.asarray(measure, np.float64), np.asarray(task, np.int64)
    if measure.shape != task.shape or not len(task):
        raise WeftError(
            f"a choice needs a measure for each of one candidate or more; found {list(measure.shape)} "
            f"for {list(task.shape)}"
        )
    if not np.isfinite(measure).any():
        return np.argsort(_position(task), kind="stable")[:batch_size]
    return np.argsort(-scores(measure, task, rule, proxy), kind="stable")[:batch_size]


def _position(task: Ints) -> Ints:
    """The how-manieth of its task each candidate is, from 0, [C]."""
    order = np.argsort(task, kind="stable")
    counts = np.bincount(task)
    found = np.empty(len(task), np.int64)
    found[order] = np.arange(len(task)) - np.repeat(np.cumsum(counts) - counts, counts)
    return found
