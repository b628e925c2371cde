"""Stops: steps from which on a task is no longer sampled."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

from weft.errors import WeftError
from weft.sampling.plan.choice import Choice, Segment

Stops = tuple[tuple[int, int], ...]
"""(step, task): from that step on the task is no longer sampled."""


def check_stops(stops: Iterable[tuple[int, int]], names: Sequence[str], window: int) -> Stops:
    """Return the stops in order; refuse invalid ones.

    Args:
        stops: (step, task id) in any order; if a task has two stops, the earlier one counts.
        names: the tasks, [T].
        window: stops can only begin at multiples of this number of steps.
    """
    first: dict[int, int] = {}
    for step, task in stops:
        if not 0 <= task < len(names):
            raise WeftError(f"stops: there is no task {task}; the plan has tasks 0 to {len(names) - 1}")
        if step < 0 or step % window:
            expected = "at least 0" if window == 1 else f"a multiple of {window}, as plan.stop_at returns"
            why = "" if window == 1 else " (a window is grouped by length as a whole)"
            raise WeftError(f"stops: task {names[task]!r} stops at step {step}; expected {expected}{why}")
        first[int(task)] = min(int(step), first.get(int(task), int(step)))
    return tuple(sorted((step, task) for task, step in first.items()))


def cut(segments: Sequence[Segment], stops: Stops, width: int, names: Sequence[str]) -> list[Segment]:
    """Divide segments at every stop, so that stopped tasks have no share.

    Steps before the first stop do not change. Stops past the end change nothing.

    Args:
        segments: the segments without stops.
        stops: (step, task id), in order.
        width: the number of draws per step.
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
            f"stops: from step {step} on every task has stopped and nothing remains to train on; end the "
            "run there, or leave a task without a stop"
        )
    if not share.any():
        left = ", ".join(repr(name) for i, name in enumerate(names) if i not in gone)
        raise WeftError(
            f"stops: from step {step} on the sampler gives all remaining tasks probability 0: {left}; "
            "let a task continue that it samples, or use a different sampler"
        )
    # if nothing changes, keep the same rule: its probabilities stay bit-identical
    return choice.without(gone, step * width) if choice.share[gone].any() else choice
