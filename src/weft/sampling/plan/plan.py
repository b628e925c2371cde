"""Plan: step → examples, a pure function of the seed and of the sizes and lengths of the data."""

from __future__ import annotations

import copy
import hashlib
import json
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from weft.errors import WeftError
from weft.sampling import build_sampler
from weft.sampling.plan.candidates import Candidates, CandidateSteps
from weft.sampling.plan.draw_counts import Turns
from weft.sampling.plan.grouping import WINDOW
from weft.sampling.plan.lengths import Lengths
from weft.sampling.plan.mixed import MixedSteps
from weft.sampling.plan.orders import Orders
from weft.sampling.plan.replacement import Replacement
from weft.sampling.plan.single import SingleSteps
from weft.sampling.plan.stops import Stops, check_stops, cut
from weft.sampling.plan.summary import Epoch, Share, TaskSummary, largest_epoch, padding, summarise
from weft.sampling.plan.weights import check_rule, example_weights
from weft.utils.counter_rng import Ints

__all__ = ["VERSION", "Candidates", "Epoch", "Plan", "Share", "Step", "TaskSummary"]

VERSION = 1
"""The version of the order, increased whenever equal arguments give a different plan."""


@dataclass(frozen=True, eq=False)
class Step:
    """The examples of one step; the loss is Σ weight·ℓ.

    The arrays have B entries in every step. The first `real` are its examples; the others, in a short
    batch, repeat them with weight 0.

    Attributes:
        number: the step.
        task: the task id of each example, [B].
        index: the index of each example in its task's training set, [B].
        weight: the weight of each example by the plan's loss rule over the real examples of the step, [B].
        real: the number of real examples, from 1 to B.
    """

    number: int
    task: Ints
    index: Ints
    weight: NDArray[np.float32]
    real: int


class Plan:
    """The examples of every step.

    A step is computed from its number alone, so a resumed run needs no state, ranks agree without
    communication, and methods can be compared on the same order. The examples of a task come in epochs: each
    example once per epoch, in a different order in each (`stretched`: repeated until the epoch is as long as
    the largest task's; with replacement there are no epochs).

    If the sampler `chooses`, the plan gives each step's candidates, and builds a `Step` of the chosen ones.

    Attributes:
        offered: the number of candidates per task and step; B unless the sampler says otherwise.

    Args:
        sizes: the number of training examples of each task, [T].
        sampler: how steps choose tasks: a name, settings (`{use: uniform}`) or a `Sampler`.
        seed: the random seed of all draws.
        steps: the number of steps of the run.
        batch_size: the number of examples of a step, B.
        mixed: whether the task is sampled for each example separately; otherwise a step has one task. A
            sampler that chooses among candidates always mixes them.
        lengths: the token lengths of each task's examples, T arrays [n_i]; needed for grouping.
        group_by_length: whether batches are length-bucketed (see `grouping`).
        loss: how examples are weighted: `task_mean`, `example_mean` or `sum`.
        names: the tasks' names, for messages, [T].
        stops: (step, task id): from that step on the task is no longer sampled.
    """

    def __init__(
        self,
        sizes: Sequence[int],
        sampler: object,
        seed: int,
        steps: int,
        batch_size: int,
        mixed: bool = False,
        lengths: Sequence[ArrayLike] | None = None,
        group_by_length: bool = False,
        loss: str = "task_mean",
        names: Sequence[str] | None = None,
        stops: Sequence[tuple[int, int]] = (),
    ) -> None:
        self.names = _names(sizes, names)
        self.sizes = _sizes(sizes, self.names)
        for setting, number in (("steps", steps), ("batch_size", batch_size)):
            if number < 1:
                raise WeftError(f"{setting} must be at least 1; found {number}")
        check_rule(loss)
        if group_by_length and lengths is None:
            raise WeftError("grouping by length needs the token lengths of each task's examples; found none")
        self.sampler = build_sampler(sampler)
        self.chooses = self.sampler.chooses
        self.offered = self.sampler.offered(batch_size, self.names)
        self.seed, self.steps, self.batch_size = seed, steps, batch_size
        self.mixed = mixed or self.chooses
        self.group_by_length, self.loss = group_by_length, loss
        self.lengths = None if lengths is None else Lengths(lengths, self.sizes, self.names)
        self._arrange(stops)

    def _arrange(self, stops: Sequence[tuple[int, int]]) -> None:
        """Lay out the steps with these stops."""
        self.stops: Stops = check_stops(stops, self.names, self._window)
        width = self.batch_size if self.mixed and not self.chooses else 1
        whole = self.sampler.segments(self.sizes, self.steps, self.names)
        self.segments = cut(whole, self.stops, width, self.names)
        orders = (
            Replacement(self.sizes, self.seed, self.batch_size)
            if self.sampler.replacement
            else Orders(self.sizes, self.seed, self.sampler.spans(self.sizes))
        )
        common = (orders, self.batch_size, self.lengths if self.group_by_length else None, self.seed)
        self._steps: CandidateSteps | MixedSteps | SingleSteps
        if self.chooses:
            self._steps = CandidateSteps(common[0], self.offered, *common[2:], self.stops)
        else:
            turns = Turns(self.segments, len(self.sizes), width, self.seed)
            self._steps = (MixedSteps if self.mixed else SingleSteps)(turns, *common)

    def with_stops(self, stops: Sequence[tuple[int, int]]) -> Plan:
        """Return the plan with exactly these stops; steps before the first different stop are equal.

        Args:
            stops: (step, task id) in any order; the steps must be values of `stop_at`.
        """
        other = copy.copy(self)
        other._arrange(stops)
        return other

    def stop_at(self, done: int) -> int:
        """Return the first step at which a stop decided after `done` steps can begin.

        This is `done` itself, except if mixed batches are grouped by length: then it is the first step of the
        next window, because a stop inside a window would change steps that were already trained on.
        """
        return -(-done // self._window) * self._window

    @property
    def _window(self) -> int:
        return WINDOW if self.mixed and self.group_by_length and not self.chooses else 1

    def step(self, number: int) -> Step:
        """Return the examples of step `number`, from 0 to steps − 1."""
        if self.chooses:
            raise WeftError(
                f"the examples of sampler {self.sampler.name!r} depend on the model being trained; use "
                "plan.candidates(number), and plan.chosen(candidates, places) for the chosen ones"
            )
        return self._filled(number, *self._examples(number))

    def candidates(self, number: int) -> Candidates:
        """Return the candidates of step `number`, 0 to steps − 1: the next batch of each running task."""
        if not self.chooses:
            raise WeftError(f"sampler {self.sampler.name!r} has no candidates; use plan.step(number)")
        return Candidates(number, *self._examples(number))

    def chosen(self, candidates: Candidates, places: ArrayLike) -> Step:
        """Return the step with the chosen candidates.

        Args:
            candidates: the candidates of the step.
            places: the indices of 1 to B chosen candidates, all different, in training order, [r].
        """
        places = np.asarray(places)
        if places.ndim != 1 or not 1 <= len(np.unique(places)) == len(places) <= self.batch_size:
            raise WeftError(
                f"a step has 1 to {self.batch_size} different candidates; found the indices {places.tolist()}"
            )
        return self._filled(candidates.number, candidates.task[places], candidates.index[places])

    def shares(self) -> list[Share]:
        """Return the expected shares of draws over time, with the stops; if it `chooses`, of candidates."""
        return [Share(s.first, s.stop, s.choice.share.copy()) for s in self.segments]

    def share_at(self, step: int) -> NDArray[np.float64]:
        """Return the expected share of the draws at a step, [T]."""
        self._check(step)
        at = bisect_right(self.segments, step, key=lambda segment: segment.first) - 1
        return self.segments[at].choice.share.copy()

    def summary(self) -> list[TaskSummary]:
        """Return exact counts per task over the whole plan; of candidates if the plan `chooses`."""
        return summarise(self, *self._steps.totals(self.steps))

    def epoch(self) -> Epoch:
        """Return the number of steps of an epoch of the largest task; with `stretched`, of all tasks.

        With n examples and share s of the draws it is n/(s·B) steps of mixed batches, else ⌈n/B⌉/s. If the
        shares change with time, those at the end of the plan are used, and the largest task is the largest of
        those sampled then. With candidates it is ⌈n/B⌉ steps: each step has one batch of every task.
        """
        return largest_epoch(self)

    def padding_waste(self, sample_steps: int = 256) -> float:
        """Return the share of padding in batches, 1 − Σ length / Σ B·(longest of the step).

        Filling examples count as padding, because they are computed too. If the plan `chooses`, it is the
        padding of the candidates, all of which are computed together.

        Args:
            sample_steps: the number of steps to evaluate, sampled from the whole plan.
        """
        return padding(self, sample_steps)

    def fingerprint(self) -> str:
        """Return the sha256, in hexadecimal, of everything the plan depends on.

        A checkpoint holds it, so that a resumed run refuses changed data or settings. The method, the tasks'
        names and the stops are not included.
        """
        settings = {
            "version": VERSION,
            "sampler": self.sampler.fingerprint(),
            "seed": self.seed,
            "steps": self.steps,
            "batch_size": self.batch_size,
            "mixed": self.mixed,
            "group_by_length": self.group_by_length,
            "loss": self.loss,
            "sizes": self.sizes.tolist(),
        }
        digest = hashlib.sha256(json.dumps(settings, sort_keys=True).encode())
        if self.lengths is not None:
            digest.update(self.lengths.flat.astype("<i4", copy=False).tobytes())
        return digest.hexdigest()

    def _examples(self, number: int) -> tuple[Ints, Ints]:
        self._check(number)
        return self._steps.examples(number)

    def _check(self, number: int) -> None:
        if not 0 <= number < self.steps:
            raise WeftError(f"step {number} is outside the plan, which has steps 0 to {self.steps - 1}")

    def _filled(self, number: int, task: Ints, index: Ints) -> Step:
        """Build a step of these examples, each [r], filled up to B by repetition with weight 0."""
        real = len(task)
        filled = np.arange(self.batch_size) % real
        weight = np.zeros(self.batch_size, np.float32)
        weight[:real] = example_weights(task, self.loss)
        return Step(number, task[filled], index[filled], weight, real)


def _names(sizes: Sequence[int], names: Sequence[str] | None) -> list[str]:
    if names is None:
        return [str(i) for i in range(len(sizes))]
    if len(names) != len(sizes):
        raise WeftError(f"names: expected one per task, {len(sizes)}; found {len(names)}")
    return list(names)


def _sizes(sizes: Sequence[int], names: Sequence[str]) -> Ints:
    if len(sizes) == 0:
        raise WeftError("a plan needs at least one task; found none")
    for name, size in zip(names, sizes, strict=True):
        if size < 1:
            raise WeftError(f"task {name!r} needs at least one training example; found {size}")
    return np.array(sizes, np.int64)
