"""The metrics of a finished run: metrics.json (validation split) and metrics.test.json (test split)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from weft.bundle.manifest import bundle_sha256
from weft.errors import WeftError, did_you_mean, words
from weft.utils.files import write_json
from weft.utils.safe_json import parse_json

FILE = "metrics.json"
VALIDATION = "validation"
FILES: Mapping[str, str] = {VALIDATION: FILE, "test": "metrics.test.json"}
"""The file of a run's folder with the metrics of each split."""
ERRORS: Mapping[str, str] = {VALIDATION: "errors.json", "test": "errors.test.json"}
"""The file of a run's folder with the errors on each split."""
BUNDLE = "bundle"
"""The key of the sha256 of the bundle that was evaluated."""
LARGEST = 1e9
"""No metric is larger. A larger value, or one that is not a number, was not written by a run."""


@dataclass(frozen=True)
class RunMetrics:
    """A run's metrics of one split.

    Attributes:
        split: the split that was evaluated, if recorded.
        tasks: the metrics of each task, the main one first.
        rows: the number of rows evaluated for each task, if recorded.
    """

    split: str | None
    tasks: dict[str, dict[str, float]]
    rows: dict[str, int]


def read_metrics(folder: Path, split: str = VALIDATION) -> RunMetrics:
    """Read and check the metrics of a run.

    Args:
        folder: the run's folder.
        split: `validation`, which a run evaluates when it ends, or `test`, which `weft evaluate` evaluates.
    """
    if split not in FILES:
        raise WeftError(f"split {split!r}: no metrics of it are stored; {did_you_mean(split, FILES)}")
    path = folder / FILES[split]
    if not path.is_file():
        raise WeftError(_missing(folder) if split == VALIDATION else _not_evaluated(folder, split))
    try:
        contents = parse_json(path.read_text(encoding="utf-8"))
    except ValueError as wrong:  # includes UnicodeDecodeError
        next_step = "a run writes it when it ends"
        if split != VALIDATION:
            next_step = f"write it again: {_again(folder, split)}"
        raise WeftError(f"{path} is not JSON: {wrong}; {next_step}") from None
    tasks = contents.get("tasks") if isinstance(contents, dict) else None
    if not isinstance(tasks, dict) or not tasks:
        shown = _shown(tasks if isinstance(contents, dict) else contents)
        raise WeftError(f"{path}: tasks: found {shown}; expected each task's metrics, as a run writes them")
    checked = {name: _checked(path, name, metrics) for name, metrics in tasks.items()}
    evaluated = contents.get(BUNDLE)
    # a run whose bundle was deleted keeps its scores
    if evaluated is not None and bundle_sha256(folder) not in (None, evaluated):
        raise WeftError(
            f"{path} holds the scores of an earlier model: the bundle has changed since; evaluate it again: "
            + _again(folder, split)
        )
    recorded, rows = contents.get("split"), contents.get("rows")
    counted = {k: v for k, v in rows.items() if isinstance(v, int)} if isinstance(rows, dict) else {}
    return RunMetrics(recorded if isinstance(recorded, str) else None, checked, counted)


def write_metrics(folder: Path, scores: Mapping[str, Any]) -> Path:
    """Write the scores of a split into the folder of a run, with the sha256 of its bundle.

    Args:
        folder: the run's folder.
        scores: the scores, with `split`; not those of validation, which the run itself writes.
    """
    path = folder / FILES[scores["split"]]
    write_json(path, {**scores, BUNDLE: bundle_sha256(folder)})
    return path


def _checked(path: Path, task: str, metrics: Any) -> dict[str, float]:
    if not isinstance(metrics, dict) or not metrics:
        raise WeftError(
            f"{path}: tasks.{task}: found {_shown(metrics)}; expected metrics such as {{'accuracy': 0.9}}"
        )
    for name, value in metrics.items():
        if isinstance(value, bool) or not isinstance(value, int | float) or not -LARGEST < value < LARGEST:
            raise WeftError(f"{path}: tasks.{task}.{name}: found {_shown(value)}; expected a finite number")
    return {name: float(value) for name, value in metrics.items()}


def _again(folder: Path, split: str) -> str:
    return words(
        f"weft evaluate {folder} --split {split}", f"weft.evaluate({str(folder)!r}, split={split!r})"
    )


def _not_evaluated(folder: Path, split: str) -> str:
    if not (folder / FILE).is_file():
        return _missing(folder)
    return f"{folder} has no {FILES[split]}; it is written by: {_again(folder, split)}"


def _missing(folder: Path) -> str:
    if not folder.exists():
        return f"{folder}: there is no such folder; expected that of a run that has ended"
    if not folder.is_dir():
        return f"{folder} is a file; expected the folder of a run that has ended"
    if (folder / "run.yaml").is_file():
        return f"the run in {folder} has not ended: {FILE} is missing; continue it with " + words(
            f"the command that started it and --resume: weft train RUN.yaml --out {folder} --resume",
            f"the call that started it and resume=True: weft.train(…, out={str(folder)!r}, resume=True)",
        )
    return f"{folder} holds no run: {FILE} is missing; expected the folder of a run, as made by: " + words(
        f"weft train RUN.yaml --out {folder}", f"weft.train(model, out={str(folder)!r})"
    )


def _shown(value: Any) -> str:
    text = "nothing" if value is None else repr(value)
    return text if len(text) <= 60 else f"{text[:59]}…"
