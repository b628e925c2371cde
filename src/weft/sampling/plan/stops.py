"""Stops: from some step on a task is drawn no more."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

from weft.errors import WeftError
from weft.sampling.plan.choice import Choice, Segment

Stops = tuple[tuple[int, int], ...]
"""(step, task): the task is drawn no more from that step on."""


def check_stops(stops: Iterable[tuple[int, int]], names: Sequence[str], window: int) -> Stops:
    """The stops in order, or what is wrong with them.

    Args:
        stops: (step, task id) in any order; of two stops of a task, the earlier counts.
        names: the tasks, [T].
        window: a stop may begin at the multiples of this many steps.
    """
    first: dict[int, int] = {}
    for step, task in stops:
        if not 0 <= task < len(names):
            raise WeftError(f"stops: there is no task {task}; the plan has the tasks 0 to {len(names) - 1}")
        if step < 0 or step % window:
            expected = "at least 0" if window == 1 else f"a multiple of {window}, as plan.stop_at gives it"
            why = "" if window == 1 else " (grouping brought the draws of a window together)"
            raise WeftError(f"stops: task {names[task]!r} stops at step {step}; expected {expected}{why}")
        first[int(task)] = min(int(step), first.get(int(task), int(step)))
    return tuple(sorted((step, task) for task, step in first.items()))


def cut(segments: Sequence[Segment], stops: Stops, width: int, names: Sequence[str]) -> list[Segment]:
    """Segments in which stopped tasks have no share: cut at every stop, and the same before the first.

    Stops past the end change nothing.

    Args:
        segments: how the steps choose without stops.
        stops: (step, task id), in order.
        width: the draws of a step.
        names: the tasks, for messages, [T].
    """
    if not stops:
        return list(segments)
    pieces = []
    for segment in segments:
        inside = {step for step, _ in stops if segment.first < step < segment.stop}
        choice = segment.choice
        for first, stop in pairwise([segment.first, *sorted(inside), segment.stop]):
            gone = [task for step, task in stops if step <= first]
            choice = _without(choice, gone, first, width, names)
            pieces.append(Segment(first, stop, choice))
    return pieces


def _without(choice: Choice, gone: list[int], step: int, width: int, names: Sequence[str]) -> Choice:
    share = choice.share.copy()
    share[gone] = 0
    if len(gone) == len(names):
        raise WeftError(
            f"stops: from step {step} on every task has stopped and nothing is left to train on; end the "
            "run there, or leave a task without a stop"
        )
    if not share.any():
        left = ", ".join(repr(name) for i, name in enumerate(names) if i not in gone)
        raise WeftError(
            f"stops: from step {step} on only tasks are left that the sampler gives probability 0: {left}; "
            "let a task go on that it draws, or choose another sampler"
        )
    # without a change the very same rule: its probabilities stay equal to the last bit
    return choice.without(gone, step * width) if choice.share[gone].any() else choice
