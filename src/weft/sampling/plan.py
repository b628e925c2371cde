"""The plan: step → examples, a pure function of the seed and the data's sizes and lengths."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from weft.errors import WeftError
from weft.sampling import build_sampler
from weft.sampling.choice import Cycle
from weft.sampling.draws import Ints, draw_key
from weft.sampling.lengths import Lengths
from weft.sampling.mixed import MixedSteps
from weft.sampling.orders import Orders
from weft.sampling.permutation import permute
from weft.sampling.single import SingleSteps
from weft.sampling.turns import Turns
from weft.sampling.weights import check_rule, example_weights

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


@dataclass(frozen=True)
class TaskSummary:
    """What a whole plan holds for one task.

    Attributes:
        name: the task.
        size: its training examples.
        share: its expected share of the draws.
        drawn: how often it is drawn: steps, or examples in mixed batches.
        examples: how many examples it is given, repeats included.
        epochs: examples / size.
    """

    name: str
    size: int
    share: float
    drawn: int
    examples: int
    epochs: float


@dataclass(frozen=True)
class Epoch:
    """An epoch of the largest task.

    Attributes:
        task: its name.
        steps: the steps in which it is given each of its examples once; where tasks are drawn by chance, on
            average.
        exact: whether tasks take turns, so that it is always so many.
    """

    task: str
    steps: float
    exact: bool


class Plan:
    """Which examples every step trains on.

    Any step is found from its number alone, so a resumed run needs no state, ranks agree without talking, and
    methods can be compared on the same order. In the order they are given to a task, its examples come as
    epochs: each example once in every epoch, in another order each time (`stretched`: as often in every epoch
    as the largest task is larger).

    Args:
        sizes: the number of training examples of each task, [T].
        sampler: how steps choose tasks: a name, settings (`{use: uniform}`) or a `Sampler`.
        seed: of everything that is drawn.
        steps: how many steps the run has.
        batch_size: the examples of a step, B.
        mixed: whether each example draws its task by itself; else a step has one task.
        lengths: the token lengths of each task's examples, T arrays [n_i]; needed for grouping.
        group_by_length: whether batches hold examples of like length (see `grouping`).
        loss: how examples are weighted: `task_mean`, `example_mean` or `sum`.
        names: the tasks' names, for messages, [T].
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
        self.seed, self.steps, self.batch_size = seed, steps, batch_size
        self.mixed, self.group_by_length, self.loss = mixed, group_by_length, loss
        self.lengths = None if lengths is None else Lengths(lengths, self.sizes, self.names)

        # The place for stops, (step, task) after which a task is drawn no more: cut the segments at these
        # steps, and from there on give the task probability 0 (`Chance`) or no turn (`Cycle`). Positions
        # before a stop stay as they are. Where mixed batches are grouped, a stop waits for the next window:
        # within one, it would change steps that have been trained on.
        self._segments = self.sampler.segments(self.sizes, steps)
        turns = Turns(self._segments, len(self.sizes), batch_size if mixed else 1, seed)
        orders = Orders(self.sizes, seed, self.sampler.spans(self.sizes))
        grouped = self.lengths if group_by_length else None
        kind = MixedSteps if mixed else SingleSteps
        self._steps: MixedSteps | SingleSteps = kind(turns, orders, batch_size, grouped, seed)

    def step(self, number: int) -> Step:
        """The examples of step `number`, from 0 to steps − 1."""
        if not 0 <= number < self.steps:
            raise WeftError(f"step {number} is outside the plan, which has the steps 0 to {self.steps - 1}")
        task, index = self._steps.examples(number)
        real = len(task)
        filled = np.arange(self.batch_size) % real
        weight = np.zeros(self.batch_size, np.float32)
        weight[:real] = example_weights(task, self.loss)
        return Step(number, task[filled], index[filled], weight, real)

    def summary(self) -> list[TaskSummary]:
        """What the plan holds for each task, counted, not estimated."""
        drawn, examples = self._steps.totals(self.steps)
        share = np.sum([(s.stop - s.first) / self.steps * s.choice.share for s in self._segments], axis=0)
        return [
            TaskSummary(
                name=name,
                size=int(self.sizes[i]),
                share=float(share[i]),
                drawn=int(drawn[i]),
                examples=int(examples[i]),
                epochs=float(examples[i] / self.sizes[i]),
            )
            for i, name in enumerate(self.names)
        ]

    def epoch(self) -> Epoch:
        """How many steps an epoch of the largest task takes: of `stretched`, an epoch of all.

        With n examples and the share s of the draws it is n/(s·B) steps of mixed batches, else ⌈n/B⌉/s. Where
        the shares change with time, they are those of the plan's end.
        """
        task = int(self.sizes.argmax())
        size, choice = int(self.sizes[task]), self._segments[-1].choice
        draws = size / self.batch_size if self.mixed else -(-size // self.batch_size)
        return Epoch(self.names[task], float(draws / choice.share[task]), isinstance(choice, Cycle))

    def padding_waste(self, sample_steps: int = 256) -> float:
        """The share of token places that hold no token, 1 − Σ length / Σ B·(longest of the step).

        Filler counts as padding: it is computed all the same.

        Args:
            sample_steps: how many steps to look at, drawn from the whole plan.
        """
        if self.lengths is None:
            raise WeftError("padding follows from the token lengths of each task's examples; found none")
        sample = np.arange(min(sample_steps, self.steps))
        tokens = places = 0
        for number in sorted(permute(sample, self.steps, draw_key(self.seed, "sample")).tolist()):
            step = self.step(number)
            lengths = self.lengths.of(step.task, step.index)
            tokens += int(lengths[: step.real].sum())
            places += self.batch_size * int(lengths.max())
        return 1 - tokens / places if places else 0.0

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
