"""The plan: step → examples, a pure function of the seed and the data's sizes and lengths."""

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
"""Of the order itself: it rises when equal arguments come to give another plan."""


@dataclass(frozen=True, eq=False)
class Step:
    """The examples of one step; the loss is Σ weight·ℓ.

    The arrays have B entries whatever the step. The first `real` are its examples; the others, in a short
    batch, repeat them with weight 0.

    Attributes:
        number: the step.
        task: the task id of each example, [B].
        index: which example of that task's training set, [B].
        weight: its weight by the plan's loss rule over the real examples of the step, [B].
        real: how many examples are real, from 1 to B.
    """

    number: int
    task: Ints
    index: Ints
    weight: NDArray[np.float32]
    real: int


class Plan:
    """Which examples every step trains on.

    Any step is found from its number alone, so a resumed run needs no state, ranks agree without talking, and
    methods can be compared on the same order. In the order they are given to a task, its examples come as
    epochs: each example once in every epoch, in another order each time (`stretched`: as often in every epoch
    as the largest task is larger; with replacement there are no epochs).

    Where the sampler `chooses`, the plan gives each step's candidates, and a `Step` of those that are chosen.

    Args:
        sizes: the number of training examples of each task, [T].
        sampler: how steps choose tasks: a name, settings (`{use: uniform}`) or a `Sampler`.
        seed: of everything that is drawn.
        steps: how many steps the run has.
        batch_size: the examples of a step, B.
        mixed: whether each example draws its task by itself; else a step has one task. A sampler that chooses
            among candidates mixes them anyway.
        lengths: the token lengths of each task's examples, T arrays [n_i]; needed for grouping.
        group_by_length: whether batches hold examples of like length (see `grouping`).
        loss: how examples are weighted: `task_mean`, `example_mean` or `sum`.
        names: the tasks' names, for messages, [T].
        stops: (step, task id): from that step on the task is drawn no more.
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
        for what, number in (("steps", steps), ("batch_size", batch_size)):
            if number < 1:
                raise WeftError(f"{what} must be at least 1; found {number}")
        check_rule(loss)
        if group_by_length and lengths is None:
            raise WeftError("grouping by length needs the token lengths of each task's examples; found none")
        self.sampler = build_sampler(sampler)
        self.chooses = self.sampler.chooses
        self.seed, self.steps, self.batch_size = seed, steps, batch_size
        self.mixed = mixed or self.chooses
        self.group_by_length, self.loss = group_by_length, loss
        self.lengths = None if lengths is None else Lengths(lengths, self.sizes, self.names)
        self._arrange(stops)

    def _arrange(self, stops: Sequence[tuple[int, int]]) -> None:
        """Lay out the steps, given the stops."""
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
            self._steps = CandidateSteps(*common, self.stops)
        else:
            turns = Turns(self.segments, len(self.sizes), width, self.seed)
            self._steps = (MixedSteps if self.mixed else SingleSteps)(turns, *common)

    def with_stops(self, stops: Sequence[tuple[int, int]]) -> Plan:
        """The same plan with these stops, and no others: equal in all steps before the first that differs.

        Args:
            stops: (step, task id) in any order; the steps are such as `stop_at` gives.
        """
        other = copy.copy(self)
        other._arrange(stops)
        return other

    def stop_at(self, done: int) -> int:
        """The first step at which a stop may begin that is decided when `done` steps are done.

        That is `done` itself. Only where mixed batches are grouped by length it is the first step of the next
        window: within one, a stop would change steps that have been trained on.
        """
        return -(-done // self._window) * self._window

    @property
    def _window(self) -> int:
        return WINDOW if self.mixed and self.group_by_length and not self.chooses else 1

    def step(self, number: int) -> Step:
        """The examples of step `number`, from 0 to steps − 1."""
        if self.chooses:
            raise WeftError(
                f"sampler {self.sampler.name!r} chooses a step's examples by the weights being trained; take "
                "plan.candidates(number), and plan.chosen(candidates, places) for those that are chosen"
            )
        return self._filled(number, *self._examples(number))

    def candidates(self, number: int) -> Candidates:
        """What step `number`, from 0 to steps − 1, may choose among: the next batch of each running task."""
        if not self.chooses:
            raise WeftError(f"sampler {self.sampler.name!r} leaves nothing to choose; take plan.step(number)")
        return Candidates(number, *self._examples(number))

    def chosen(self, candidates: Candidates, places: ArrayLike) -> Step:
        """The step of the candidates that were chosen.

        Args:
            candidates: of the step.
            places: where the chosen ones are in it, in the order in which they are trained on; from 1 to B,
                none twice, [r].
        """
        places = np.asarray(places)
        if places.ndim != 1 or not 1 <= len(np.unique(places)) == len(places) <= self.batch_size:
            raise WeftError(
                f"a step has 1 to {self.batch_size} of its candidates, none twice; found the places "
                f"{places.tolist()}"
            )
        return self._filled(candidates.number, candidates.task[places], candidates.index[places])

    def shares(self) -> list[Share]:
        """The expected share of the draws over time, with the stops; where it `chooses`, of candidates."""
        return [Share(s.first, s.stop, s.choice.share.copy()) for s in self.segments]

    def share_at(self, step: int) -> NDArray[np.float64]:
        """The expected share of the draws at a step, [T]."""
        self._check(step)
        at = bisect_right(self.segments, step, key=lambda segment: segment.first) - 1
        return self.segments[at].choice.share.copy()

    def summary(self) -> list[TaskSummary]:
        """What the plan holds for each task, counted, not estimated; candidates, where it `chooses`."""
        return summarise(self, *self._steps.totals(self.steps))

    def epoch(self) -> Epoch:
        """How many steps an epoch of the largest task takes: of `stretched`, an epoch of all.

        With n examples and the share s of the draws it is n/(s·B) steps of mixed batches, else ⌈n/B⌉/s. Where
        the shares change with time, they are those of the plan's end, and the largest task is the largest of
        those that are drawn then. Of candidates it is ⌈n/B⌉ steps: each step has a batch of every task.
        """
        return largest_epoch(self)

    def padding_waste(self, sample_steps: int = 256) -> float:
        """The share of token places that hold no token, 1 − Σ length / Σ B·(longest of the step).

        Filler counts as padding: it is computed all the same. Where the plan `chooses`, it is that of the
        candidates, all of which are computed together.

        Args:
            sample_steps: how many steps to look at, drawn from the whole plan.
        """
        return padding(self, sample_steps)

    def fingerprint(self) -> str:
        """The sha256 of all that the plan follows from, in hexadecimal.

        A checkpoint holds it, so that a resumed run refuses other data or settings. The method, the tasks'
        names and the stops are not in it.
        """
        settings = {
            "version": VERSION,
            "sampler": self.sampler.settings(),
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
            raise WeftError(f"step {number} is outside the plan, which has the steps 0 to {self.steps - 1}")

    def _filled(self, number: int, task: Ints, index: Ints) -> Step:
        """A step of these examples, each [r], repeated to B with weight 0."""
        real = len(task)
        filled = np.arange(self.batch_size) % real
        weight = np.zeros(self.batch_size, np.float32)
        weight[:real] = example_weights(task, self.loss)
        return Step(number, task[filled], index[filled], weight, real)


def _names(sizes: Sequence[int], names: Sequence[str] | None) -> list[str]:
    if names is None:
        return [str(i) for i in range(len(sizes))]
    if len(names) != len(sizes):
        raise WeftError(f"names: expected one for each of {len(sizes)} tasks; found {len(names)}")
    return list(names)


def _sizes(sizes: Sequence[int], names: Sequence[str]) -> Ints:
    if len(sizes) == 0:
        raise WeftError("a plan needs at least one task; found none")
    for name, size in zip(names, sizes, strict=True):
        if size < 1:
            raise WeftError(f"task {name!r} needs at least one training example; found {size}")
    return np.array(sizes, np.int64)
