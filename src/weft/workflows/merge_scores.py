"""The scores of tasks before and after they were merged: the table of `weft assemble --merge`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from weft.bundle.manifest import find_bundle, read_manifest
from weft.config.model_data import known_tasks
from weft.errors import words
from weft.evaluation.scores import main_score
from weft.utils.notes import Tell, print_note


@dataclass(frozen=True)
class TaskScore:
    """The score of a task on validation, before and after.

    Attributes:
        task: its name.
        metric: its first metric, which is its score.
        before: the score with the task's own weights.
        after: the score with the merged weights.
        rows: how many rows were evaluated.
    """

    task: str
    metric: str
    before: float
    after: float
    rows: int

    def as_dict(self) -> dict[str, Any]:
        """The fields as JSON values."""
        return dict(self.__dict__)


def merge_scores(
    bundles: Sequence[str | Path],
    merged: str | Path,
    tasks: Sequence[str | Path] | None = None,
    *,
    rows: int | None = None,
    encoder: Any = None,
    device: str | None = None,
    progress: bool = True,
    tell: Tell = print_note,
) -> list[TaskScore]:
    """Evaluate every task with its own weights and with the merged ones, on the same validation rows.

    Args:
        bundles: the bundles or runs that were merged.
        merged: the bundle that they were merged to.
        tasks: run files or task files that say where the data is; None: the run.yaml of each run. Tasks
            without data are left out.
        rows: evaluate about this many examples per task; None: all.
        encoder: folder or hub id of the encoder, if it has moved.
        device: cpu, cuda, …; None: a GPU if there is one.
        progress: whether to show the progress of tokenization.
        tell: called with a note if no task can be evaluated.
    """
    from weft.workflows.evaluate import evaluate

    runs = [Path(folder) / "run.yaml" for folder in bundles]
    files = list(tasks) if tasks else [file for file in runs if file.is_file()]
    known = known_tasks(files).tasks if files else {}
    with_data = [
        folder
        for folder in bundles
        if any(name in known for name in read_manifest(find_bundle(folder))["tasks"])
    ]
    if not with_data:
        data = words("--tasks RUN.yaml", "tasks='run.yaml'")
        tell(f"the tasks are not scored: bundles hold no data; name run files that do, with {data}")
        return []
    settings: dict[str, Any] = {"rows": rows, "encoder": encoder, "device": device, "progress": progress}
    before: dict[str, Any] = {}
    for folder in with_data:
        before |= evaluate(folder, files, **settings)["tasks"]
    after = evaluate(merged, files, **settings)
    return [
        TaskScore(
            name,
            next(iter(metrics)),
            main_score(before[name]),
            main_score(metrics),
            after["rows"][name],
        )
        for name, metrics in after["tasks"].items()
    ]
