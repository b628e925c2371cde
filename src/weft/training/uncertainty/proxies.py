"""Proxies: the tasks whose uncertainty scores stand in for tasks without a measure."""

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
    """Task → the task whose scores it uses, by number.

    The setting `proxy` comes first. A task without a measure (`regress`, `similarity`) that it leaves out
    uses a task with a measure that reads equally many texts, or any if there is none; of these the nearest in
    size, by |ln(n / n_other)|; of equals the first. A task that has a proxy cannot be a proxy.

    Args:
        tasks: the tasks that train, [T].
        sizes: the number of training examples of each, [T].
        settings: the settings of the sampler.
    """
    names = [task.name for task in tasks]
    measured = _measured(tasks)
    proxy_of = _configured(names, measured, settings.proxy)
    able = [i for i, can in enumerate(measured) if can and i not in proxy_of]
    for i, task in enumerate(tasks):
        if measured[i] or i in proxy_of:
            continue
        if not able:
            raise WeftError(
                f"sampler mt_uncertainty: task {task.name!r} ({task.kind}) has no uncertainty measure, and "
                f"no other task has one; found {', '.join(f'{t.name} ({t.kind})' for t in tasks)}\n"
                "  add a task of a different kind, such as classify, or choose a different sampler: "
                "train.sampler=uniform"
            )
        proxy_of[i] = _nearest(i, able, tasks, sizes)
    return proxy_of


def remaining(
    proxy: Mapping[int, int], present: Collection[int], tasks: Sequence[Task], sizes: Sequence[int]
) -> dict[int, int]:
    """The proxies after some tasks have stopped.

    A task whose proxy has stopped uses its own measure or, without one, the nearest task's.

    Args:
        proxy: the result of `proxies`.
        present: the tasks that have not stopped.
        tasks: all tasks that train, [T].
        sizes: the number of training examples of each, [T].
    """
    measured = _measured(tasks)
    proxy_of = {i: j for i, j in proxy.items() if i in present and j in present}
    able = [i for i in sorted(present) if measured[i] and i not in proxy_of]
    for i in sorted(present):
        if able and not measured[i] and i not in proxy_of:
            proxy_of[i] = _nearest(i, able, tasks, sizes)
    return proxy_of


def _measured(tasks: Sequence[Task]) -> list[bool]:
    """Whether each task has an uncertainty measure, [T]."""
    return [KINDS[task.kind].has_uncertainty for task in tasks]


def _nearest(task: int, able: Sequence[int], tasks: Sequence[Task], sizes: Sequence[int]) -> int:
    """The possible proxy nearest in size, among those that read equally many texts if there are any."""
    comparable = [i for i in able if len(tasks[i].texts) == len(tasks[task].texts)] or able
    return min(comparable, key=lambda i: abs(math.log(sizes[i] / sizes[task])))


def _configured(names: Sequence[str], measured: Sequence[bool], proxy: Mapping[str, str]) -> dict[int, int]:
    """The setting `proxy` by task number, validated."""
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
                else "has no uncertainty measure"
            )
            raise WeftError(f"{KEY}: {task}: {other}, which {why}; {choice}")
    return {names.index(task): names.index(other) for task, other in proxy.items()}
