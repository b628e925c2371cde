"""Source: a file with its format, its column names and options for reading it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from weft.data.readers.encoding import check_encoding
from weft.data.readers.formats import FORMATS, check_options, format_of, options_of
from weft.data.readers.shaping import SHAPING, check_shaping
from weft.errors import WeftError, did_you_mean
from weft.tasks.in_memory import RowsRecord

DIALECT = ("encoding", "delimiter", "quotes")
"""Options that may also stand beside the path; None: detected."""
HUB = "hub"
"""The format whose path is the id of a data set and not a file."""


@dataclass(frozen=True)
class Source:
    """One file of a task.

    Attributes:
        path: the file; for the format `hub` a data set's id, `NAME`, `OWNER/NAME` or `OWNER/NAME/CONFIG`.
        format: one of `FORMATS`; by default derived from the ending of the file name.
        columns: the task's name of a column → the file's name, if they differ. `a.b` is the key `b` of the
            objects in column `a`, or the column `a_b`.
        options: options of the format (see its reader) and of all formats (see `weft.data.readers.shaping`).
    """

    path: Path
    format: str | None = None
    columns: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not isinstance(self.path, str | Path) or not str(self.path):
            raise WeftError(f"a source: path: expected a file; found {self.path!r}")
        path = Path(self.path)
        object.__setattr__(self, "path", path if self.format == HUB else path.expanduser())
        for key in ("columns", "options"):
            value: Any = getattr(self, key)
            if not isinstance(value, Mapping):
                raise WeftError(f"{self.path}: {key}: expected names with their values; found {value!r}")
            object.__setattr__(self, key, dict(value))
        for name, column in self.columns.items():
            if not isinstance(name, str) or not isinstance(column, str) or not column:
                raise WeftError(
                    f"{self.path}: columns: expected the task's name: the file's name; "
                    f"found {name!r}: {column!r}"
                )
        if self.format is not None and self.format not in FORMATS:
            raise WeftError(f"{self.path}: format {self.format!r}; {did_you_mean(str(self.format), FORMATS)}")
        form = self.form
        if form is not None:
            try:
                check_options(form, self.options, SHAPING)
                check_shaping(self.options)
                if self.options.get("encoding") is not None:
                    check_encoding(self.options["encoding"])
            except WeftError as wrong:
                raise WeftError(f"{self.path}: {wrong}") from None

    @property
    def form(self) -> str | None:
        """The configured format, else the one of the file's ending; None if the ending is unknown."""
        return self.format or format_of(self.path.name)

    @property
    def is_file(self) -> bool:
        """Whether the path is a file and not a data set on the hub."""
        return self.form != HUB

    def settings(self) -> dict[str, Any]:
        """The settings that `as_source` accepts: JSON-serializable, with an absolute path."""
        path = str(self.path.resolve()) if self.is_file else str(self.path)
        settings = {
            "path": path,
            "format": self.format,
            "columns": dict(self.columns),
            "options": dict(self.options),
        }
        return {key: value for key, value in settings.items() if value}


def with_dialect(file: Any, keys: Mapping[str, Any]) -> Any:
    """Return a file with the `DIALECT` keys of its task; the file's own options override them.

    Args:
        file: a path, a source, or rows in memory, which are returned unchanged.
        keys: the keys that are not None. A format ignores those it does not have, such as parquet.
    """
    if not keys or not isinstance(file, str | Path | Source):
        return file
    source = file if isinstance(file, Source) else Source(Path(file))
    takes = () if source.form is None else options_of(source.form)
    options = {key: value for key, value in keys.items() if key in takes}
    return replace(source, options={**options, **source.options}) if options else file


def as_source(entry: object, folder: Path | None = None) -> Source | Path | RowsRecord:
    """Return the file of a run-file entry: a path, or `{path: FILE, format: …, columns: {…}, options: {…}}`.

    The keys `encoding`, `delimiter` and `quotes` may stand beside the path or in the options. The run.yaml
    of a run may also hold the record of rows that were in memory.

    Args:
        entry: the entry of the run file.
        folder: the folder that relative paths start from.
    """
    if isinstance(entry, Source):
        return entry
    if isinstance(entry, str | Path) and str(entry):
        path = Path(entry).expanduser()
        return path if folder is None else folder / path
    if (record := RowsRecord.of(entry)) is not None:
        return record
    known = ("path", "format", "columns", "options", *DIALECT)
    if not isinstance(entry, Mapping) or "path" not in entry:
        raise WeftError(
            f"expected a file, or {{path: FILE, format: {'|'.join(FORMATS)}, columns: …}}; found {entry!r}"
        )
    for key in entry:
        if key not in known:
            raise WeftError(f"a file has no setting {key!r}; {did_you_mean(str(key), known)}")
    settings: dict[str, Any] = {str(key): value for key, value in entry.items() if value is not None}
    if not isinstance(settings.get("path"), str | Path) or not str(settings["path"]):
        raise WeftError(f"path: expected a file; found {settings.get('path')!r}")
    beside = {key: settings.pop(key) for key in DIALECT if key in settings}
    if beside and isinstance(settings.get("options", {}), Mapping):
        settings["options"] = {**settings.get("options", {}), **beside}
    if settings.get("format") != HUB:
        path = Path(settings["path"]).expanduser()
        settings["path"] = path if folder is None else folder / path
    return Source(**settings)
