"""Forms: the layouts in which a suite's task may be stored on disk or on the hub, and the search for them.

A task of a suite's YAML has, beside the settings of a `Task`:

- `hub`: `id`, the data set with its configuration; `splits` (weft's name → the hub's), `also`, `columns` and
  `options` if they differ from the defaults. Files with the hub's names have the same columns.
- `local`: the same as `hub`, for local files with the hub's names that differ from the hub.
- `official`: a list of forms, each with `folder`, `files` (split → file, or {file, columns, options}, or a
  list of which the first existing one is used), `also`, `columns`, `options`, `format`, and `needs`,
  further files that must exist.
- `with_head`: the settings that `compare: head` brings, for a task that is compared by the cosine.
- `folder`: the task's folder among files with the hub's names, if it differs from the task's name.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from weft.data.readers.source import HUB, Source
from weft.tasks.task import SPLITS

SUFFIXES = (
    *(".parquet", ".jsonl", ".tsv", ".csv", ".jsonl.gz", ".tsv.gz", ".csv.gz"),
    "-00000-of-00001.parquet",  # the hub's own file names
)
FORM_KEYS = ("hub", "local", "official", "folder", "with_head")
"""The keys of a task in a suite's YAML that are not settings of a `Task`."""

File = Path | Source


@dataclass(frozen=True)
class Form:
    """The existing files of one form of a task.

    Attributes:
        files: the existing splits.
        also: the existing further sets.
        expected: the names of all splits and sets of the form, such as `test` and `mm`.
    """

    files: dict[str, File]
    also: dict[str, dict[str, File]] = field(default_factory=dict)
    expected: tuple[str, ...] = SPLITS

    @property
    def missing(self) -> list[str]:
        """The expected splits and sets that do not exist."""
        return [name for name in self.expected if name not in self.files and name not in self.also]

    @property
    def size(self) -> int:
        """The number of existing files."""
        return len(self.files) + sum(map(len, self.also.values()))


def best_form(suite: str, table: Mapping[str, Any], task: str, root: Path) -> Form | None:
    """Return the form with a train file and the most files, the first of equal ones; None without any."""
    forms = [*_local(suite, table, task, root), *_official(suite, table, task, root)]
    complete = [form for form in forms if "train" in form.files]
    return max(complete, key=lambda form: form.size, default=None)


def hub_form(entry: Mapping[str, Any]) -> Form | None:
    """Return a task's splits on the hub; None if the task is not on the hub."""
    hub = entry.get("hub")
    if hub is None:
        return None

    def source(entry: str | Mapping[str, Any]) -> Source:
        settings: Mapping[str, Any] = {"id": hub["id"], "split": entry} if isinstance(entry, str) else entry
        columns = settings.get("columns", hub.get("columns", {}))
        return Source(
            Path(settings["id"]), HUB, columns, {"split": settings["split"], **hub.get("options", {})}
        )

    splits = hub.get("splits", {split: split for split in SPLITS})
    also: dict[str, dict[str, File]] = {
        name: {s: source(stem) for s, stem in stems.items()} for name, stems in hub.get("also", {}).items()
    }
    return Form({split: source(stem) for split, stem in splits.items()}, also, (*splits, *also))


def looked_in(suite: str, table: Mapping[str, Any], task: str, root: Path) -> list[Path]:
    """Return the paths that are searched, for messages: with the hub's names, and the official ones."""
    entry = table["tasks"][task]
    single = len(table["tasks"]) == 1
    local = root / suite / ("" if single else entry.get("folder", task)) / "train.parquet"
    forms = entry.get("official", ())[:1]
    return [local, *(root / suite / form.get("folder", "") / _name(form["files"]["train"]) for form in forms)]


def _bases(suite: str, table: Mapping[str, Any], root: Path) -> list[Path]:
    return [*(root / folder for folder in dict.fromkeys((suite, *table["folders"]))), root]


def _local(suite: str, table: Mapping[str, Any], task: str, root: Path) -> Iterator[Form]:
    """Yield forms with the hub's names: BASE/TASK/train.parquet, or BASE/train.parquet in a suite of one."""
    entry = table["tasks"][task]
    form: Mapping[str, Any] = entry.get("local", entry.get("hub", {}))
    splits: Mapping[str, str] = form.get("splits", {split: split for split in SPLITS})
    for base in _bases(suite, table, root):
        # beside other suites a task has its full name: ROOT/squad is not MRQA's
        inside = [task if base == root else entry.get("folder", task)]
        # a train file in a folder with various data may belong to something else
        if len(table["tasks"]) == 1 and (base != root or root.resolve().name in table["folders"]):
            parts = str(entry.get("hub", {}).get("id", "")).split("/")
            inside += ["", "plain_text", *parts[2:]]
        for folder in inside:
            path = base / folder
            files = {split: _stem(path, stem, form) for split, stem in splits.items()}
            also = {
                name: {split: _stem(path, stem, form) for split, stem in stems.items()}
                for name, stems in form.get("also", {}).items()
            }
            yield _existing(files, also)


def _official(suite: str, table: Mapping[str, Any], task: str, root: Path) -> Iterator[Form]:
    for form in table["tasks"][task].get("official", ()):
        for base in _bases(suite, table, root):
            path = base / form.get("folder", "")
            if not all(_is_file(path, name) for name in form.get("needs", ())):
                continue
            files = {split: _file(path, entry, form) for split, entry in form["files"].items()}
            also = {
                name: {split: _file(path, entry, form) for split, entry in sets.items()}
                for name, sets in form.get("also", {}).items()
            }
            yield _existing(files, also)


def _existing(files: Mapping[str, File | None], also: Mapping[str, Mapping[str, File | None]]) -> Form:
    sets = {name: {s: f for s, f in splits.items() if f is not None} for name, splits in also.items()}
    return Form(
        {split: file for split, file in files.items() if file is not None},
        {name: splits for name, splits in sets.items() if splits},
        (*files, *also),
    )


def _stem(folder: Path, entry: Any, form: Mapping[str, Any]) -> File | None:
    """Find a file by its name without the ending; its own columns and options override those of the form."""
    stem = _name(entry)
    settings: Mapping[str, Any] = {} if isinstance(entry, str) else entry
    columns, options = (settings.get(key, form.get(key, {})) for key in ("columns", "options"))
    for suffix in SUFFIXES:
        if _is_file(folder, f"{stem}{suffix}"):
            return _as_source(folder / f"{stem}{suffix}", None, columns, options)
    return None


def _file(folder: Path, entry: Any, form: Mapping[str, Any]) -> File | None:
    """Find a file of an official form, or the first existing one of several.

    The columns and options of a file override those of the form.
    """
    if isinstance(entry, list):
        return next((file for option in entry if (file := _file(folder, option, form))), None)
    name = _name(entry)
    if not _is_file(folder, name):
        return None
    settings: Mapping[str, Any] = {} if isinstance(entry, str) else entry
    columns, options = (settings.get(key, form.get(key, {})) for key in ("columns", "options"))
    return _as_source(folder / name, form.get("format"), columns, options)


def _name(entry: str | Mapping[str, Any]) -> str:
    return entry if isinstance(entry, str) else str(entry["file"])


def _as_source(path: Path, form: str | None, columns: Mapping[str, str], options: Mapping[str, Any]) -> File:
    path = Path(os.path.normpath(path))  # some files are in a sibling of the task's folder
    return Source(path, form, columns, options) if form or columns or options else path


def _is_file(folder: Path, name: str) -> bool:
    """Whether the file exists with exactly this spelling.

    On a case-insensitive file system GLUE's CoLA must not be mistaken for cola, which has the hub's columns.
    """
    path = folder / name
    if not path.is_file():
        return False
    try:
        return all(part in os.listdir(where) for where, part in _steps(path, len(Path(name).parts) + 1))
    except OSError:  # a folder that can be read but not listed
        return True


def _steps(path: Path, count: int) -> Iterator[tuple[Path, str]]:
    for _ in range(count):
        if path.name in ("", "..", "."):
            return
        yield path.parent, path.name
        path = path.parent
