"""Whose scores a task takes that has no measure of its own."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from weft.errors import WeftError, did_you_mean
from weft.tasks.kinds import KINDS

if TYPE_CHECKING:
    from weft.sampling.samplers.mt_uncertainty import MtUncertainty
    from weft.tasks.task import Task

KEY = "train.sampler.proxy"


def proxies(tasks: Sequence[Task], sizes: Sequence[int], settings: MtUncertainty) -> dict[int, int]:
    """Task → the task whose scores it takes, by position.

    What `proxy` says; and for a task without a measure (`regress`, `similarity`) that it leaves out: among
    the tasks with one, those that read as many texts, or all where none does; of these the nearest in size,
    by |ln(n / n_other)|; of equals the first. A task that has a proxy is nobody's proxy.

    Args:
        tasks: those that train, [T].
        sizes: their training examples, [T].
        settings: of the sampler.
    """
    names = [task.name for task in tasks]
    measured = _measured(tasks)
    found = _given(names, measured, settings.proxy)
    able = [i for i, can in enumerate(measured) if can and i not in found]
    for i, task in enumerate(tasks):
        if measured[i] or i in found:
            continue
        if not able:
            raise WeftError(
                f"sampler mt_uncertainty: task {task.name!r} ({task.kind}) has no measure of its own, and no "
                f"task here has one to give; found {', '.join(f'{t.name} ({t.kind})' for t in tasks)}\n"
                "  add a task of another kind, such as classify, or choose another sampler: "
                "train.sampler=uniform"
            )
        found[i] = _nearest(i, able, tasks, sizes)
    return found


def remaining(
    proxy: Mapping[int, int], present: Collection[int], tasks: Sequence[Task], sizes: Sequence[int]
) -> dict[int, int]:
    """The same once tasks have stopped: whose proxy is gone has its own measure, or else the nearest's.

    Args:
        proxy: of `proxies`.
        present: the tasks that have not stopped.
        tasks: all that train, [T].
        sizes: their training examples, [T].
    """
    measured = _measured(tasks)
    found = {i: j for i, j in proxy.items() if i in present and j in present}
    able = [i for i in sorted(present) if measured[i] and i not in found]
    for i in sorted(present):
        if able and not measured[i] and i not in found:
            found[i] = _nearest(i, able, tasks, sizes)
    return found


def _measured(tasks: Sequence[Task]) -> list[bool]:
    """Whether the model can tell how unsure it is of each task."""
    return [KINDS[task.kind].has_uncertainty for task in tasks]


def _nearest(one: int, able: Sequence[int], tasks: Sequence[Task], sizes: Sequence[int]) -> int:
    """Of the tasks that can be a proxy, the nearest in size of those that read as many texts, or of all."""
    alike = [i for i in able if len(tasks[i].texts) == len(tasks[one].texts)] or able
    return min(alike, key=lambda i: abs(math.log(sizes[i] / sizes[one])))


def _given(names: Sequence[str], measured: Sequence[bool], proxy: Mapping[str, str]) -> dict[int, int]:
    """What the setting says, by position, once it makes sense."""
    for task, other in proxy.items():
        for name in (task, other):
            if name not in names:
                raise WeftError(f"{KEY}: task {name!r} does not train here; {did_you_mean(name, names)}")
        able = [name for name, can in zip(names, measured, strict=True) if can and name not in proxy]
        choice = f"expected one of {', '.join(able)}" if able else "no task here can be a proxy"
        if other not in able:
            why = (
                "is the task itself"
                if task == other
                else "has a proxy itself"
                if other in proxy
                else "has no measure of its own"
            )
            raise WeftError(f"{KEY}: {task}: {other}, which {why}; {choice}")
    return {names.index(task): names.index(other) for task, other in proxy.items()}
