"""Averages of groups of tasks: `groups: {GLUE: [cola, rte], NER: [wnut17]}` of a grid.

The value of a group in one run is the mean of the scores of its tasks that the run has. A table shows the
mean over seeds ± its standard error, s/√n. Unlike the intervals of the grid's average, this error does not
include how much other rows would change.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import fsum, sqrt
from typing import TYPE_CHECKING, Any

from weft.config.reading import Reading
from weft.evaluation.scores import main_score

if TYPE_CHECKING:
    from weft.experiments.records import Record

Groups = Mapping[str, tuple[str, ...]]


def read_groups(value: object, reading: Reading) -> Groups:
    """Read `groups`: names with lists of tasks.

    Args:
        value: as in the grid's file; None: no groups.
        reading: records what is wrong.
    """
    if value is None:
        return {}
    if not isinstance(value, dict):
        reading.wrong(["groups"], f"expected names with lists of tasks; found {value!r}")
        return {}
    groups = {}
    for name, tasks in value.items():
        if not isinstance(tasks, list) or not tasks or not all(isinstance(task, str) for task in tasks):
            reading.wrong(["groups", str(name)], f"expected a list of tasks; found {tasks!r}")
            continue
        groups[str(name)] = tuple(dict.fromkeys(tasks))
    return groups


def group_score(tasks: Iterable[str], record: Record) -> float | None:
    """The mean score of a group in one run, from 0 to 1; None: the run has none of its tasks."""
    scores = [main_score(record.metrics[task]) for task in tasks if task in record.metrics]
    return fsum(scores) / len(scores) if scores else None


def group_facts(groups: Groups, records: Iterable[Record]) -> dict[str, dict[str, Any]]:
    """The groups of a variant: `mean` and standard error `se` over its runs, and the `tasks` that count.

    Args:
        groups: the groups of the grid.
        records: the runs of the variant, one per seed.
    """
    runs = list(records)
    facts = {}
    for name, tasks in groups.items():
        values = [score for run in runs if (score := group_score(tasks, run)) is not None]
        if not values:
            continue
        mean = fsum(values) / len(values)
        squares = fsum((value - mean) ** 2 for value in values)
        se = sqrt(squares / (len(values) - 1) / len(values)) if len(values) > 1 else None
        there = [task for task in tasks if task in runs[0].metrics]
        facts[name] = {"mean": mean, "se": se, "tasks": there}
    return facts
