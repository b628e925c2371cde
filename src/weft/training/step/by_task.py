"""The micro-batches of a step whose tasks have separate passes (`train.conflict`), in groups of one shape.

The tasks of a group run side by side in one captured graph. A graph serves one shape and one number of tasks,
so there should be few of both; and a pass over few rows costs a GPU nearly as much as one over many, so there
should be few groups. Groups are chosen by a model of their cost in token positions,

    cost(group) = OVERHEAD + tasks · rows · length.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from weft.sampling.plan.plan import Step
from weft.training.step.microbatches import MicroBatch, MicroBatches, TaskGroup
from weft.training.step.shapes import Shape
from weft.utils.counter_rng import Ints

LANES = 8
"""The most tasks of a group. Each has its own memory for activations and gradients."""

OVERHEAD = 4096
"""The token positions that take a GPU as long as the kernels of a pass over hardly any."""


def groups_of(microbatches: MicroBatches, step: Step, lanes: int = LANES) -> list[TaskGroup]:
    """The micro-batches of a step, one for each task and chunk, in groups.

    Args:
        microbatches: builds them; its `shapes` must be those of tasks.
        step: the step.
        lanes: the most tasks of a group, a power of two.
    """
    groups = []
    for number, chunk in enumerate(np.array_split(np.arange(step.real), microbatches.training.accumulate)):
        parts = [chunk[step.task[chunk] == task] for task in np.unique(step.task[chunk]).tolist()]
        for cluster in _clusters(microbatches, step, parts):
            groups += _cut(microbatches, step, number, cluster, lanes)
    return groups


def _shape(microbatches: MicroBatches, step: Step, parts: Sequence[Ints]) -> Shape:
    assert microbatches.shapes is not None
    return microbatches.shapes.of_tasks([(step.task[part], step.index[part]) for part in parts])


def _cost(shape: Shape, count: int) -> int:
    return OVERHEAD + count * shape.rows * shape.length


def _clusters(microbatches: MicroBatches, step: Step, parts: Sequence[Ints]) -> list[list[Ints]]:
    """Tasks with about as many rows each, the most rows first: merged where that costs less."""
    clusters: list[tuple[list[Ints], Shape]] = []
    single = [(part, _shape(microbatches, step, [part])) for part in parts]
    for part, shape in sorted(single, key=lambda pair: -pair[1].rows):
        if clusters:
            before, common = clusters[-1]
            merged = _shape(microbatches, step, [*before, part])
            apart = _cost(common, len(before)) + _cost(shape, 1)
            if _cost(merged, len(before) + 1) <= apart:
                clusters[-1] = [*before, part], merged
                continue
        clusters.append(([part], shape))
    return [cluster for cluster, _ in clusters]


def _cut(
    microbatches: MicroBatches, step: Step, chunk: int, parts: Sequence[Ints], lanes: int
) -> list[TaskGroup]:
    """Groups of a power of two tasks each; where it costs less than one more group, some are idle."""
    parts = sorted(parts, key=lambda part: int(step.task[part[0]]))
    shape = _shape(microbatches, step, parts)
    groups = []
    while parts:
        size = _lanes(len(parts), lanes, shape)
        taken, parts = parts[:size], parts[size:]
        made = [_microbatch(microbatches, step, part, shape) for part in taken]
        idle = MicroBatch(made[0].tasks, np.zeros_like(made[0].weight), made[0].batch)
        tasks = tuple(int(step.task[part[0]]) for part in taken)
        groups.append(TaskGroup(chunk, tasks, made + [idle] * (size - len(taken))))
    return groups


def _lanes(tasks: int, most: int, shape: Shape) -> int:
    """The size of the next group of this many tasks: the power of two above them, or below."""
    above = 1 << (tasks - 1).bit_length()
    below = 1 << (tasks.bit_length() - 1)
    if above <= most and (above - tasks) * shape.rows * shape.length <= OVERHEAD:
        return above
    return min(below, most)


def _microbatch(microbatches: MicroBatches, step: Step, part: Ints, shape: Shape) -> MicroBatch:
    """The micro-batch of one task, with a weight of 0 for every filling example."""
    made = microbatches.microbatch(step.task[part], step.index[part], step.weight[part], shape)
    filling = made.batch.examples - len(part)
    tasks = np.concatenate([made.tasks, np.full(filling, made.tasks[0])])
    weight = np.concatenate([made.weight, np.zeros(filling, np.float32)])
    return MicroBatch(tasks, weight, made.batch)
