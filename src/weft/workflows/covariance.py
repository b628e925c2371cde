"""CovSim of the tasks of one or several models: the function behind `weft show covariance`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weft.analysis.json_numbers import number as finite
from weft.analysis.spread import change_percent, compare
from weft.config.model_data import find_tasks, tasks_with_data
from weft.errors import WeftError, words
from weft.utils.notes import Tell, print_note

if TYPE_CHECKING:
    from weft.analysis.covariance import Covariance, CovarianceSimilarity


def covariance_of_runs(
    folders: Sequence[Path],
    files: Sequence[str] | None = None,
    *,
    split: str = "validation",
    rows: int = 500,
    pool: str = "mean",
    share: float = 0.99,
    encoder: Any = None,
    device: str | None = None,
    tell: Tell = print_note,
) -> CovarianceSimilarity:
    """Compute how similar the covariances of the tasks' inputs are; see `weft.analysis.covariance`.

    Args:
        folders: runs or bundles; the tasks of all of them are compared.
        files: run files that name the data of a bundle; None: the run.yaml of each run.
        split: `train`, `validation` or `test`.
        rows: how many rows of each task are used, the same ones for every model.
        pool: what a row of X is: `mean`, `cls` or `tokens`.
        share: the fraction of the sum of the singular values that a rank must hold.
        encoder: folder or hub id of the encoder, if it has moved.
        device: cpu, cuda, …; None: a GPU if there is one.
        tell: called with each note.
    """
    from weft.analysis.covariance import check_settings

    check_settings(rows, pool, share)
    known = [find_tasks(folder, files) for folder in folders]
    from weft.analysis.covariance import covariance_similarity
    from weft.analysis.covariance_of_model import covariances_of
    from weft.bundle.load import load
    from weft.data.splits.splits import load_rows
    from weft.data.tokens.tokens import tokenize
    from weft.utils.devices import device_of

    by_folder: list[dict[str, Covariance]] = []
    for folder, known_tasks in zip(folders, known, strict=True):
        model = load(folder, encoder=encoder, device=device_of(device))
        tasks = tasks_with_data(model, folder, known_tasks, tell)
        splits = {task.name: load_rows(task, split) for task in tasks}
        data = {name: tokenize(s, model.tokenizer, model.max_length) for name, s in splits.items()}
        by_folder.append(covariances_of(model, data, rows, pool))
    merged = _merged(folders, by_folder)
    return covariance_similarity(list(merged), list(merged.values()), share)


@dataclass(frozen=True)
class AgainstReference:
    """A task of a model, beside the same task of a reference.

    Attributes:
        model: the folder of the model.
        task: the task.
        similarity: CovSim_i, its mean CovSim with the model's other tasks; nan if it is not defined.
        score: its score, from 0 to 1; of an error 1 − error.
        reference: the best score of the references that have the task; None: none has it.
    """

    model: str
    task: str
    similarity: float
    score: float
    reference: float | None

    @property
    def gain(self) -> float:
        """The change of the score in percent of the reference; nan without a reference, or if it is 0."""
        return change_percent(self.score, self.reference)

    def as_dict(self) -> dict[str, Any]:
        """All fields as JSON values; undefined numbers are null."""
        return {
            "model": self.model,
            "task": self.task,
            "covsim": finite(self.similarity),
            "score": self.score,
            "reference": self.reference,
            "change_percent": finite(self.gain),
        }


def covariance_against(
    folders: Sequence[Path],
    references: Sequence[Path],
    *,
    split: str = "validation",
    **settings: Any,
) -> list[AgainstReference]:
    """CovSim of each task within its own model, and the change of its score (CA-MTL, Figure 3.6).

    Args:
        folders: runs with several tasks each.
        references: runs that scores are compared with, such as one per task.
        split: the split of the scores; the inputs are those of the same split.
        settings: as of `covariance_of_runs`.
    """
    from weft.evaluation.run_metrics import read_metrics
    from weft.metrics import is_error

    # before any model is loaded: a reference may be missing
    theirs = {str(folder): read_metrics(folder, split).tasks for folder in references}
    compared = {folder: compare(read_metrics(folder, split).tasks, theirs) for folder in folders}
    if not any(task.reference is not None for tasks in compared.values() for task in tasks):
        known = ", ".join(sorted({task for tasks in theirs.values() for task in tasks}))
        option = words("--against", "references")
        raise WeftError(
            f"no task of the models is in {option}; found {known}; expected runs of the same tasks"
        )
    found = []
    for folder in folders:
        similarity = covariance_of_runs([folder], split=split, **settings)
        averages = dict(zip(similarity.tasks, similarity.averages.tolist(), strict=True))
        for task in compared[folder]:
            value, other = task.this, task.reference
            if is_error(task.metric):
                value, other = 1 - value, None if other is None else 1 - other
            found.append(
                AgainstReference(str(folder), task.task, averages.get(task.task, math.nan), value, other)
            )
    return found


def _merged(folders: Sequence[Path], by_folder: list[dict[str, Covariance]]) -> dict[str, Covariance]:
    """The tasks of all folders by name; a name that several folders have is prefixed with the folder."""
    names = [name for covariances in by_folder for name in covariances]
    merged: dict[str, Covariance] = {}
    widths: dict[Path, int] = {}
    for folder, covariances in zip(folders, by_folder, strict=True):
        for name, covariance in covariances.items():
            full = f"{folder}:{name}" if names.count(name) > 1 else name
            if full in merged:
                raise WeftError(f"{folder} is listed twice; leave one out")
            merged[full] = covariance
            widths[folder] = len(covariance.matrix)
    if len(set(widths.values())) > 1:
        listed = ", ".join(f"{folder}: {width}" for folder, width in widths.items())
        raise WeftError(f"the encoders' widths differ ({listed}); expected models of one width")
    return merged
