"""The forms that a suite's task may have on the disk or on the hub, and which of them is there.

A task of a suite's YAML has, beside the settings of a `Task`:

- `hub`: `id`, the data set with its configuration; `splits` (weft's name → the hub's), `also`, `columns` and
  `options` where they are not the plain ones. Files that carry the hub's names have the same columns.
- `local`: as `hub`, for such files, where they differ from the hub.
- `official`: a list of forms, each with `folder`, `files` (split → file, or {file, columns, options}, or a
  list of which the first that is there is taken), `also`, `columns`, `options`, `format`, and `needs`,
  further files that must be there.
- `folder`: the task's folder among files with the hub's names, where it is not its name.
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
    "-00000-of-00001.parquet",  # as the hub itself names them
)
FORM_KEYS = ("hub", "local", "official", "folder")
"""What a task of a suite's YAML has that no `Task` has."""

File = Path | Source


@dataclass(frozen=True)
class Form:
    """One form of a task, as far as it is there.

    Attributes:
        files: the splits that are there.
        also: the further sets that are there.
        expected: the names of all splits and sets that the form has, such as `test` and `mm`.
    """

    files: dict[str, File]
    also: dict[str, dict[str, File]] = field(default_factory=dict)
    expected: tuple[str, ...] = SPLITS

    @property
    def missing(self) -> list[str]:
        """What the form has and is not there."""
        return [name for name in self.expected if name not in self.files and name not in self.also]

    @property
    def size(self) -> int:
        """How many files are there."""
        return len(self.files) + sum(map(len, self.also.values()))


def best_form(suite: str, table: Mapping[str, Any], task: str, root: Path) -> Form | None:
    """The form with a train file that has the most files, of equals the first; None if there is none."""
    forms = [*_local(suite, table, task, root), *_official(suite, table, task, root)]
    found = [form for form in forms if "train" in form.files]
    return max(found, key=lambda form: form.size, default=None)


def hub_form(entry: Mapping[str, Any]) -> Form | None:
    """A task's splits on the hub; None if it is not there."""
    hub = entry.get("hub")
    if hub is None:
        return None

    def source(given: str | Mapping[str, Any]) -> Source:
        own: Mapping[str, Any] = {"id": hub["id"], "split": given} if isinstance(given, str) else given
        columns = own.get("columns", hub.get("columns", {}))
        return Source(Path(own["id"]), HUB, columns, {"split": own["split"], **hub.get("options", {})})

    splits = hub.get("splits", {split: split for split in SPLITS})
    also: dict[str, dict[str, File]] = {
        name: {s: source(stem) for s, stem in stems.items()} for name, stems in hub.get("also", {}).items()
    }
    return Form({split: source(stem) for split, stem in splits.items()}, also, (*splits, *also))


def looked_in(suite: str, table: Mapping[str, Any], task: str, root: Path) -> list[Path]:
    """Where a task's files are looked for, for messages: with the hub's names, and with the official ones."""
    entry = table["tasks"][task]
    single = len(table["tasks"]) == 1
    ours = root / suite / ("" if single else entry.get("folder", task)) / "train.parquet"
    forms = entry.get("official", ())[:1]
    return [ours, *(root / suite / form.get("folder", "") / _name(form["files"]["train"]) for form in forms)]


def _bases(suite: str, table: Mapping[str, Any], root: Path) -> list[Path]:
    return [*(root / folder for folder in dict.fromkeys((suite, *table["folders"]))), root]


def _local(suite: str, table: Mapping[str, Any], task: str, root: Path) -> Iterator[Form]:
    """Files with the hub's names: BASE/TASK/train.parquet, of a suite of one task BASE/train.parquet too."""
    entry = table["tasks"][task]
    how: Mapping[str, Any] = entry.get("local", entry.get("hub", {}))
    splits: Mapping[str, str] = how.get("splits", {split: split for split in SPLITS})
    for base in _bases(suite, table, root):
        # beside other suites a task goes by its full name: ROOT/squad is not MRQA's
        inside = [task if base == root else entry.get("folder", task)]
        # a folder of many things has no train file of its own that is meant
        if len(table["tasks"]) == 1 and (base != root or root.resolve().name in table["folders"]):
            parts = str(entry.get("hub", {}).get("id", "")).split("/")
            inside += ["", "plain_text", *parts[2:]]
        for folder in inside:
            place = base / folder
            files = {split: _stem(place, stem, how) for split, stem in splits.items()}
            also = {
                name: {split: _stem(place, stem, how) for split, stem in stems.items()}
                for name, stems in how.get("also", {}).items()
            }
            yield _there(files, also)


def _official(suite: str, table: Mapping[str, Any], task: str, root: Path) -> Iterator[Form]:
    for form in table["tasks"][task].get("official", ()):
        for base in _bases(suite, table, root):
            place = base / form.get("folder", "")
            if not all(_is_file(place, name) for name in form.get("needs", ())):
                continue
            files = {split: _file(place, given, form) for split, given in form["files"].items()}
            also = {
                name: {split: _file(place, given, form) for split, given in sets.items()}
                for name, sets in form.get("also", {}).items()
            }
            yield _there(files, also)


def _there(files: Mapping[str, File | None], also: Mapping[str, Mapping[str, File | None]]) -> Form:
    sets = {name: {s: f for s, f in own.items() if f is not None} for name, own in also.items()}
    return Form(
        {split: file for split, file in files.items() if file is not None},
        {name: own for name, own in sets.items() if own},
        (*files, *also),
    )


def _stem(place: Path, given: Any, how: Mapping[str, Any]) -> File | None:
    """A file by its name without the ending; what it says itself takes the place of what the form says."""
    stem = _name(given)
    own: Mapping[str, Any] = {} if isinstance(given, str) else given
    columns, options = (own.get(key, how.get(key, {})) for key in ("columns", "options"))
    for suffix in SUFFIXES:
        if _is_file(place, f"{stem}{suffix}"):
            return _as_source(place / f"{stem}{suffix}", None, columns, options)
    return None


def _file(place: Path, given: Any, form: Mapping[str, Any]) -> File | None:
    """A file of an official form, or the first of several that is there.

    What a file says itself takes the place of what the form says.
    """
    if isinstance(given, list):
        return next((file for one in given if (file := _file(place, one, form))), None)
    name = _name(given)
    if not _is_file(place, name):
        return None
    own: Mapping[str, Any] = {} if isinstance(given, str) else given
    columns, options = (own.get(key, form.get(key, {})) for key in ("columns", "options"))
    return _as_source(place / name, form.get("format"), columns, options)


def _name(given: str | Mapping[str, Any]) -> str:
    return given if isinstance(given, str) else str(given["file"])


def _as_source(path: Path, form: str | None, columns: Mapping[str, str], options: Mapping[str, Any]) -> File:
    path = Path(os.path.normpath(path))  # some lie in a folder beside the task's
    return Source(path, form, columns, options) if form or columns or options else path


def _is_file(place: Path, name: str) -> bool:
    """Whether the file is there in this very spelling.

    Where the file system takes CoLA for cola, GLUE's file must still not pass for one with the hub's columns.
    """
    path = place / name
    if not path.is_file():
        return False
    try:
        return all(part in os.listdir(where) for where, part in _steps(path, len(Path(name).parts) + 1))
    except OSError:  # a folder that may be read from but not listed
        return True


def _steps(path: Path, count: int) -> Iterator[tuple[Path, str]]:
    for _ in range(count):
        if path.name in ("", "..", "."):
            return
        yield path.parent, path.name
        path = path.parent
