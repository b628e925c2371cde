"""What settings of `train` cannot mean together, told before anything is loaded."""

from __future__ import annotations

from collections.abc import Sequence

from weft.errors import WeftError, did_you_mean
from weft.sampling import build_sampler
from weft.settings import SettingsError
from weft.training.settings import Training


def mistakes(training: Training, tasks: Sequence[str]) -> list[tuple[str, str]]:
    """Each mistake as (key, what is wrong).

    Args:
        training: the settings, each of which is right by itself.
        tasks: the tasks that train.
    """
    found: list[tuple[str, str]] = []
    try:
        build_sampler(training.sampler).check(tasks)
    except WeftError as wrong:
        found.append(("sampler", str(wrong).removeprefix("sampler.")))
    sampler = training.sampler["use"]
    chosen = ["average", "per_task", *tasks]
    if training.best not in chosen:
        found.append(("best", f"{training.best!r}; {did_you_mean(training.best, chosen)}"))
    elif training.best != "average" and not training.evaluate_every:
        told = "needs evaluations to choose by: set train.evaluate_every"
        found.append(("best", f"{training.best} {told}"))
    if training.stop is not None and not training.evaluate_every:
        found.append(("stop", "tasks stop by their evaluations: set train.evaluate_every"))
    if training.conflict is not None:
        if not training.mixed and sampler != "mt_uncertainty":
            told = "a step of one task has no conflict: set train.mixed=true"
            found.append(("conflict", f"{training.conflict['use']!r}; {told}"))
        if len(tasks) < 2:
            found.append(
                (
                    "conflict",
                    f"{training.conflict['use']!r} merges the gradients of several tasks; there is one",
                )
            )
        if training.parallel == "fsdp":
            found.append(
                (
                    "parallel",
                    "'fsdp' scatters gradients before they could be merged: expected ddp with train.conflict",
                )
            )
    if isinstance(training.task_weights, dict):
        found += [
            ("task_weights", f"{name!r} is no task; {did_you_mean(name, tasks)}")
            for name in training.task_weights
            if name not in tasks
        ]
    if training.optimizer == "bert_adam" and training.schedule == "cosine":
        found.append(
            ("schedule", "'cosine'; bert_adam has a schedule of its own: expected linear or constant")
        )
    return found


def check_training(training: Training, tasks: Sequence[str]) -> None:
    """Refuse settings that cannot be meant together, all mistakes at once."""
    found = mistakes(training, tasks)
    if found:
        raise SettingsError("train", found)
