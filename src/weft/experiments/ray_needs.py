"""The files and encoders that the cells of a grid read, with their hashes, so that nodes can be checked."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from weft.experiments.identity import encoder_facts
from weft.experiments.plan import Planned
from weft.experiments.ray_node import Needed
from weft.tasks.task import SYNTHETIC, Task
from weft.utils.checksums import file_sha256
from weft.utils.version import __version__


def needed_by(waiting: Sequence[Planned], splits: Sequence[str], probe: str) -> Needed:
    """What cells need on every node.

    Args:
        waiting: the cells.
        splits: the splits that they read.
        probe: see `Needed`.
    """
    runs = [planned.run_file for planned in waiting if planned.run_file is not None]
    tasks = [task for run in runs for task in run.tasks]
    paths = dict.fromkeys(path for task in tasks for path in files_of(task, splits))
    # a missing file is reported by the cell that reads it
    files = {str(path): file_sha256(path) for path in paths if path.is_file()}
    encoders = {name: encoder_facts(name) for name in dict.fromkeys(run.encoder for run in runs)}
    known = {name: facts for name, facts in encoders.items() if "name" not in facts}
    return Needed(__version__, files, known, probe, os.getcwd())


def files_of(task: Task, splits: Sequence[str]) -> Iterator[Path]:
    """The absolute paths of the files of a task."""
    if task.suite == SYNTHETIC:
        return
    for of_set in (task.files, *task.also.values()):
        for split, source in of_set.items():
            path = _path(source)
            if split in splits and path is not None:
                yield path.absolute()


def _path(source: Any) -> Path | None:
    from weft.data.readers.source import HUB, Source

    if isinstance(source, Source):
        return None if source.format == HUB else Path(source.path)
    return Path(source) if isinstance(source, str | Path) else None
