"""How a run read its files: the same file, or one like it, is read in the same way for predictions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weft.errors import WeftError

if TYPE_CHECKING:
    from weft.data.readers.source import Source
    from weft.tasks.task import Task


@dataclass(frozen=True)
class KnownFile:
    """What a run knows about a file.

    Attributes:
        source: how the run read this very file, if its run file says more than the path.
        keys: `encoding`, `delimiter`, `quotes` and `header`: of this file, else of the task.
        columns: the task's column → the file's, if they differ: of this file, else of the task's other files.
        task: the task that has this file, if there is exactly one.
    """

    source: Source | None = None
    keys: Mapping[str, Any] = field(default_factory=dict)
    columns: Mapping[str, str] = field(default_factory=dict)
    task: str | None = None

    @property
    def whole(self) -> bool:
        """Whether the file is filtered or computed from, which only the reader of whole files can do."""
        from weft.data.readers.shaping import SHAPING

        if self.source is None:
            return False
        return any(key in self.source.options for key in SHAPING) or any(
            "." in column for column in self.source.columns.values()
        )


def known_file(bundle: Path, file: Path, task: str | None) -> KnownFile:
    """Find out how a run read a file, by its run.yaml; a bundle alone knows nothing of files.

    Args:
        bundle: a run's folder, or a bundle.
        file: the file to predict.
        task: the task of all its rows, if it was named.
    """
    if not (bundle / "run.yaml").is_file():
        return KnownFile()
    from weft.config.model_data import known_tasks

    try:
        tasks = known_tasks([bundle / "run.yaml"]).tasks
    except (WeftError, OSError):
        return KnownFile()  # the data has moved: predictions need none of it
    same = {name: _same_file(known, file) for name, known in tasks.items()}
    of_file = [name for name, sources in same.items() if sources]
    name = task or (of_file[0] if len(of_file) == 1 else None)
    if name is None or name not in tasks:
        return KnownFile()
    from weft.data.readers.source import Source, with_dialect
    from weft.tasks.task import OF_FILES

    of_task = {key: value for key in OF_FILES if (value := getattr(tasks[name], key)) is not None}
    entries = [with_dialect(entry, of_task) for entry in same[name]]
    sources = [source for source in entries if isinstance(source, Source)]
    others = [source for source in tasks[name].files.values() if isinstance(source, Source)]
    columns = next((source.columns for source in (*sources, *others) if source.columns), {})
    if same[name] and not sources:
        columns = {}  # this very file has the task's own names
    source = sources[0] if sources else None
    keys = of_task if source is None else source.options
    return KnownFile(source, keys, columns, name if name in of_file else None)


def _same_file(task: Task, file: Path) -> list[object]:
    """The entries of a task, and of its further sets, that are this file."""
    from weft.data.readers.source import Source, as_source

    entries: list[object] = list(task.files.values())
    for further in task.also.values():
        for entry in further.values():
            entries.append(as_source(entry) if isinstance(entry, str | Mapping) else entry)
    path = file.resolve()
    return [
        entry
        for entry in entries
        if (isinstance(entry, Path) and entry.resolve() == path)
        or (isinstance(entry, Source) and entry.is_file and entry.path.resolve() == path)
    ]
