"""CovSim of the tasks of one model or several, on their own data."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weft.config.model_data import find_tasks, tasks_with_data
from weft.errors import WeftError
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
    """How similar the covariances of the tasks' inputs are; see `weft.analysis.covariance`.

    Args:
        folders: runs or bundles; of several the tasks of all are compared.
        files: run files that say where a bundle's data is; None: the runs' own.
        split: `train`, `validation` or `test`.
        rows: how many rows of each task, the same for every model.
        pool: what a row of X is: `mean`, `cls` or `tokens`.
        share: of the sum of the singular values that a rank must hold.
        encoder: folder or hub id of the encoder, if it has moved.
        device: cpu, cuda, …; None: a GPU if there is one.
        tell: takes notes.
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
    for folder, there in zip(folders, known, strict=True):
        model = load(folder, encoder=encoder, device=device_of(device))
        splits = {task.name: load_rows(task, split) for task in tasks_with_data(model, folder, there, tell)}
        data = {name: tokenize(s, model.tokenizer, model.max_length) for name, s in splits.items()}
        by_folder.append(covariances_of(model, data, rows, pool))
    together = _together(folders, by_folder)
    return covariance_similarity(list(together), list(together.values()), share)


def _together(folders: Sequence[Path], by_folder: list[dict[str, Covariance]]) -> dict[str, Covariance]:
    """The tasks of all folders; one that several have is named after its folder too."""
    names = [name for found in by_folder for name in found]
    together: dict[str, Covariance] = {}
    for folder, found in zip(folders, by_folder, strict=True):
        for name, one in found.items():
            full = f"{folder}:{name}" if names.count(name) > 1 else name
            if full in together:
                raise WeftError(f"{folder} is given twice")
            together[full] = one
    widths = {
        folder: len(one.matrix) for folder, f in zip(folders, by_folder, strict=True) for one in f.values()
    }
    if len(set(widths.values())) > 1:
        listed = ", ".join(f"{folder}: {width}" for folder, width in widths.items())
        raise WeftError(f"the encoders' widths differ ({listed}); expected models of one width")
    return together
