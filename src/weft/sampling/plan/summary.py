"""Statistics of a whole plan: each task's share over time, number of draws, epochs, padding."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from weft.errors import WeftError
from weft.sampling.plan.choice import Cycle
from weft.utils.counter_rng import Ints, draw_key
from weft.utils.permutation import permute

if TYPE_CHECKING:
    from weft.sampling.plan.plan import Plan


@dataclass(frozen=True, eq=False)
class Share:
    """The expected share of the draws, in the steps first, …, stop − 1.

    Attributes:
        first: the first of these steps.
        stop: the step after the last.
        share: the share of each task, with sum 1, [T].
    """

    first: int
    stop: int
    share: NDArray[np.float64]


@dataclass(frozen=True)
class TaskSummary:
    """Statistics of one task over a whole plan.

    Attributes:
        name: the task.
        size: the number of its training examples.
        share: its expected share of the draws.
        drawn: how often it is sampled: steps, or examples in mixed batches; if steps choose among candidates,
            the number of steps in which it has some.
        examples: the number of its examples (candidates) in the plan, repeats included.
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
        steps: the number of steps in which each of its examples occurs once; an average if tasks are sampled
            at random; with replacement, the steps with as many examples as it has.
        exact: whether the number is always exact: tasks take turns, or every step has candidates of all.
    """

    task: str
    steps: float
    exact: bool


def summarise(plan: Plan, drawn: Ints, examples: Ints) -> list[TaskSummary]:
    """Return one row per task.

    Args:
        plan: the plan.
        drawn: how often each task is sampled in all steps, [T].
        examples: the number of examples of each task in all steps, [T].
    """
    share = np.sum([(s.stop - s.first) / plan.steps * s.share for s in plan.shares()], axis=0)
    return [
        TaskSummary(
            name=name,
            size=int(plan.sizes[i]),
            share=float(share[i]),
            drawn=int(drawn[i]),
            examples=int(examples[i]),
            epochs=float(examples[i] / plan.sizes[i]),
        )
        for i, name in enumerate(plan.names)
    ]


def largest_epoch(plan: Plan) -> Epoch:
    """Return the epoch of the largest task that is sampled at the end of the plan."""
    choice = plan.segments[-1].choice
    task = int(np.where(choice.share > 0, plan.sizes, 0).argmax())
    size, name = int(plan.sizes[task]), plan.names[task]
    if plan.chooses:
        return Epoch(name, float(-(-size // plan.offered)), True)
    short = not (plan.mixed or plan.sampler.replacement)  # whether an epoch ends with a short batch
    draws = -(-size // plan.batch_size) if short else size / plan.batch_size
    return Epoch(name, float(draws / choice.share[task]), isinstance(choice, Cycle))


def padding(plan: Plan, sample_steps: int) -> float:
    """Return the share of padding in `sample_steps` steps, sampled from the whole plan."""
    if plan.lengths is None:
        raise WeftError("padding needs the token lengths of each task's examples; found none")
    tokens = places = 0
    for task, index, rows in _sample(plan, sample_steps):
        lengths = plan.lengths.of(task, index)
        tokens += int(lengths.sum())
        places += rows * int(lengths.max())
    return 1 - tokens / places if places else 0.0


def _sample(plan: Plan, sample_steps: int) -> Iterator[tuple[Ints, Ints, int]]:
    """Yield (task ids, indices, batch size) of the real examples or candidates of some steps."""
    sample = np.arange(min(sample_steps, plan.steps))
    for number in sorted(permute(sample, plan.steps, draw_key(plan.seed, "sample")).tolist()):
        if plan.chooses:
            offered = plan.candidates(number)
            yield offered.task, offered.index, len(offered.task)
        else:
            step = plan.step(number)
            yield step.task[: step.real], step.index[: step.real], plan.batch_size
