"""Reading and checking the metrics.json of a finished run."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from weft.errors import WeftError, words
from weft.utils.safe_json import parse_json

FILE = "metrics.json"
LARGEST = 1e9
"""No metric is larger. A larger value, or one that is not a number, was not written by a run."""


@dataclass(frozen=True)
class RunMetrics:
    """A run's metrics.json.

    Attributes:
        split: the split that was evaluated, if recorded.
        tasks: the metrics of each task, the main one first.
        rows: the number of rows evaluated for each task, if recorded.
    """

    split: str | None
    tasks: dict[str, dict[str, float]]
    rows: dict[str, int]


def read_metrics(folder: Path) -> RunMetrics:
    """Read and check the metrics of a run.

    Args:
        folder: the run's folder.
    """
    path = folder / FILE
    if not path.is_file():
        raise WeftError(_missing(folder))
    try:
        contents = parse_json(path.read_text(encoding="utf-8"))
    except ValueError as wrong:  # includes UnicodeDecodeError
        raise WeftError(f"{path} is not JSON: {wrong}; a run writes it when it ends") from None
    tasks = contents.get("tasks") if isinstance(contents, dict) else None
    if not isinstance(tasks, dict) or not tasks:
        shown = _shown(tasks if isinstance(contents, dict) else contents)
        raise WeftError(f"{path}: tasks: found {shown}; expected each task's metrics, as a run writes them")
    checked = {name: _checked(path, name, metrics) for name, metrics in tasks.items()}
    split, rows = contents.get("split"), contents.get("rows")
    counted = {k: v for k, v in rows.items() if isinstance(v, int)} if isinstance(rows, dict) else {}
    return RunMetrics(split if isinstance(split, str) else None, checked, counted)


def _checked(path: Path, task: str, metrics: Any) -> dict[str, float]:
    if not isinstance(metrics, dict) or not metrics:
        raise WeftError(
            f"{path}: tasks.{task}: found {_shown(metrics)}; expected metrics such as {{'accuracy': 0.9}}"
        )
    for name, value in metrics.items():
        if isinstance(value, bool) or not isinstance(value, int | float) or not -LARGEST < value < LARGEST:
            raise WeftError(f"{path}: tasks.{task}.{name}: found {_shown(value)}; expected a finite number")
    return {name: float(value) for name, value in metrics.items()}


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
