"""The score that selects the best weights of a run: `train.best`. No torch is imported here.

`best` is `average`, `per_task`, the name of a task, one of `AVERAGES`, or one metric of one task as
`TASK.METRIC`. A name that is both a task and an average is the task.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from weft.errors import did_you_mean, words
from weft.evaluation.averages import AVERAGES, average
from weft.evaluation.scores import Scores, main_score

if TYPE_CHECKING:
    from weft.tasks.task import Task

AVERAGE, PER_TASK = "average", "per_task"

Reported = Mapping[str, Sequence[str]]
"""The metrics that an evaluation reports, by task."""


def reported_metrics(tasks: Sequence[Task]) -> dict[str, list[str]]:
    """The metrics that an evaluation on validation rows reports for each task, with those of further sets.

    Example:
        >>> reported_metrics(weft.load_suite("glue", "data", only=["mnli"]))
        {'mnli': ['accuracy', 'accuracy_mm']}
    """
    return {
        task.name: [
            *task.metrics,
            *(
                f"{metric}_{further}"
                for further, files in task.also.items()
                if "validation" in files
                for metric in task.metrics
            ),
        ]
        for task in tasks
    }


def selection_mistake(best: str, tasks: Sequence[str], reported: Reported | None = None) -> str | None:
    """What is wrong with a value of `best`; None if it can select.

    Args:
        best: the value.
        tasks: the names of the tasks that train.
        reported: the metrics of each task; None: they are not known, and not checked.
    """
    if best in (AVERAGE, PER_TASK, *tasks):
        return None
    task, dot, metric = best.partition(".")
    if dot and task in tasks:
        metrics = [] if reported is None else reported[task]
        if reported is None or metric in metrics:
            return None
        return f"{best!r}; task {task!r} has no metric {metric!r}; {did_you_mean(metric, metrics)}"
    if best not in AVERAGES:
        shown = {AVERAGE, PER_TASK, *tasks, *AVERAGES}
        return f"{best!r}; {did_you_mean(best, shown)}, or one metric of one task: TASK.METRIC"
    if reported is None:
        return None
    # the metrics' values do not matter here
    missing = average(best, {name: dict.fromkeys(metrics, 0.0) for name, metrics in reported.items()}).missing
    if not missing:
        return None
    lacking = ", ".join(part.name for part in missing)
    choose = words(f"train.best={AVERAGE}", f"best={AVERAGE!r}")
    return (
        f"{best!r} is the average of {len(AVERAGES[best])} values; this run does not have {lacking}: "
        f"add them, or choose by the mean score of the tasks: {choose}"
    )


def selecting_score(best: str, scores: Scores) -> float:
    """The score that selects, the larger the better.

    Args:
        best: the value of `train.best`, which is valid for these scores.
        scores: the scores of an evaluation.
    """
    tasks = scores["tasks"]
    if best in tasks:
        return main_score(tasks[best])
    if best in (AVERAGE, PER_TASK):
        return scores["average"]
    task, dot, metric = best.partition(".")
    if dot:
        return main_score({metric: tasks[task][metric]})
    value = average(best, tasks).value
    assert value is not None, f"{best}: selection_mistake reports an average without all its values"
    return value
