"""The score of the majority answer: a task on which a run is not better has not been learned."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import fsum
from typing import TYPE_CHECKING

from weft.evaluation.scores import main_score
from weft.experiments.records import Record

if TYPE_CHECKING:
    from weft.data.splits.split import Split
    from weft.tasks.task import Task

MAJORITY = "majority"
"""Where a record's measures have the score of the majority answer of each task."""


def majority_scores(
    tasks: Sequence[Task], train: Mapping[tuple[str, str], Split], reported: Mapping[str, Split]
) -> dict[str, float]:
    """The score of each task's most frequent training label, or mean, as a constant answer.

    Args:
        tasks: the tasks; those without training rows, or without reported ones, are left out.
        train: (task, split) → rows.
        reported: the rows that scores are reported on, by task.
    """
    from weft.evaluation.baselines import majority

    scores = {
        task.name: main_score(majority(task, train[task.name, "train"], reported[task.name]))
        for task in tasks
        if task.name in reported and (task.name, "train") in train
    }
    return {name: score for name, score in scores.items() if score == score}


def not_learned(records: Sequence[Record]) -> list[str]:
    """The tasks whose mean score is not above that of the majority answer; perfect scores are.

    Args:
        records: those of all seeds of a variant.
    """
    pairs: dict[str, list[tuple[float, float]]] = {}
    for record in records:
        if (record.settings.get("train") or {}).get("steps") == 0:  # nothing was to be learned
            continue
        guessed = record.measures.get(MAJORITY)
        for task, guess in guessed.items() if isinstance(guessed, dict) else ():
            if metrics := record.metrics.get(task):
                pairs.setdefault(str(task), []).append((main_score(metrics), float(guess)))
    means = {task: [fsum(values) / len(of) for values in zip(*of, strict=True)] for task, of in pairs.items()}
    return [task for task, (score, guess) in means.items() if score <= guess and score < 1]
