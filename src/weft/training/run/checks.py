"""Check for `train` settings that contradict each other, before anything is loaded."""

from __future__ import annotations

from collections.abc import Sequence

from weft.errors import WeftError, did_you_mean, train_key, words
from weft.evaluation.selection import AVERAGE, Reported, selection_mistake
from weft.sampling import build_sampler
from weft.settings import SettingsError
from weft.training.settings import Training
from weft.training.trackers import trackers_of


def mistakes(
    training: Training, tasks: Sequence[str], reported: Reported | None = None
) -> list[tuple[str, str]]:
    """List the mistakes as (key, message).

    Args:
        training: the settings, each of which is valid by itself.
        tasks: the names of the tasks that train.
        reported: the metrics that an evaluation reports for each of them; None: not known.
    """
    problems: list[tuple[str, str]] = []
    try:
        build_sampler(training.sampler).check(tasks)
    except WeftError as wrong:
        problems.append(("sampler", str(wrong).removeprefix("sampler.")))
    if training.epochs is not None and "steps" in training.model_fields_set:
        problems.append(
            ("epochs", f"{training.epochs:g}, and steps is {training.steps}; expected one of the two")
        )
    if training.epochs is None and training.epoch != "rows":
        problems.append(("epoch", f"{training.epoch!r} has no effect without {train_key('epochs')}"))
    sampler = training.sampler["use"]
    if wrong_best := selection_mistake(training.best, tasks, reported):
        problems.append(("best", wrong_best))
    elif training.best != AVERAGE and not training.evaluate_every:
        problems.append(("best", f"{training.best} needs evaluations: set {train_key('evaluate_every')}"))
    if training.stop is not None and not training.evaluate_every:
        problems.append(("stop", f"early stopping needs evaluations: set {train_key('evaluate_every')}"))
    if training.conflict is not None:
        if not training.mixed and sampler != "mt_uncertainty":
            hint = f"a step with one task has no conflict: set {words('train.mixed=true', 'mixed=True')}"
            problems.append(("conflict", f"{training.conflict['use']!r}; {hint}"))
        if len(tasks) < 2:
            problems.append(
                (
                    "conflict",
                    f"{training.conflict['use']!r} merges the gradients of several tasks; found one task",
                )
            )
        if training.parallel == "fsdp":
            problems.append(
                (
                    "parallel",
                    "'fsdp' scatters gradients before they can be merged: expected ddp with a conflict",
                )
            )
    rates = None if training.lr_of is None else training.lr_of.tasks
    for key, by_task in (("task_weights", training.task_weights), ("lr_of", rates)):
        problems += [
            (key, f"{name!r} is not a task of this run; {did_you_mean(name, tasks)}")
            for name in (by_task if isinstance(by_task, dict) else ())
            if name not in tasks
        ]
    if training.optimizer == "bert_adam" and training.schedule == "cosine":
        problems.append(
            ("schedule", "'cosine'; bert_adam computes its own schedule: expected linear or constant")
        )
    return problems


def missing_trackers(training: Training) -> list[tuple[str, str]]:
    """List the trackers whose package is not installed, as (key, message).

    This is no mistake of the run file, which may be read on a machine without the package, but training
    would not start.
    """
    missing = [tracker.missing() for tracker in trackers_of(training)]
    return [("trackers", message) for message in missing if message is not None]


def check_trackers(training: Training) -> None:
    """Raise SettingsError if the package of a tracker is not installed."""
    if missing := missing_trackers(training):
        raise SettingsError(words("train", "Training"), missing)


def check_training(training: Training, tasks: Sequence[str], reported: Reported | None = None) -> None:
    """Raise SettingsError with all mistakes if settings contradict each other. See `mistakes`."""
    problems = mistakes(training, tasks, reported) + missing_trackers(training)
    if problems:
        raise SettingsError(words("train", "Training"), problems)
