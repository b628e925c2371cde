"""A file with what must be known to read it: its format, its names for the task's columns, and options."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from weft.data.readers.formats import FORMATS, check_options, format_of
from weft.data.readers.shaping import SHAPING, check_shaping
from weft.errors import WeftError, did_you_mean

HUB = "hub"
"""The format whose path is no file but the id of a data set."""


@dataclass(frozen=True)
class Source:
    """One file of a task.

    Attributes:
        path: the file; for the format `hub` a data set's id, `NAME`, `OWNER/NAME` or `OWNER/NAME/CONFIG`.
        format: one of `FORMATS`; by default what the name's ending tells.
        columns: the task's name of a column → the file's, for those that differ. `a.b` is the key `b` of the
            objects in column `a`, or the column `a_b`.
        options: of the format (see its reader), and of any format (see `weft.data.readers.shaping`).
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
            given: Any = getattr(self, key)
            if not isinstance(given, Mapping):
                raise WeftError(f"{self.path}: {key}: expected names with their values; found {given!r}")
            object.__setattr__(self, key, dict(given))
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
            except WeftError as wrong:
                raise WeftError(f"{self.path}: {wrong}") from None

    @property
    def form(self) -> str | None:
        """The format: the one that was given, else the one that the name tells; None if it tells none."""
        return self.format or format_of(self.path.name)

    @property
    def is_file(self) -> bool:
        """Whether the path is a file's, not a data set's on the hub."""
        return self.form != HUB

    def settings(self) -> dict[str, Any]:
        """What `as_source` takes: JSON-able, the path absolute."""
        path = str(self.path.resolve()) if self.is_file else str(self.path)
        found = {
            "path": path,
            "format": self.format,
            "columns": dict(self.columns),
            "options": dict(self.options),
        }
        return {key: value for key, value in found.items() if value}


def as_source(given: object, folder: Path | None = None) -> Source | Path:
    """A file as a run file says it: a path, or `{path: FILE, format: …, columns: {…}, options: {…}}`.

    Args:
        given: what the run file says.
        folder: what relative paths start from.
    """
    if isinstance(given, Source):
        return given
    if isinstance(given, str | Path) and str(given):
        path = Path(given).expanduser()
        return path if folder is None else folder / path
    known = ("path", "format", "columns", "options")
    if not isinstance(given, Mapping) or "path" not in given:
        raise WeftError(
            f"expected a file, or {{path: FILE, format: {'|'.join(FORMATS)}, columns: …}}; found {given!r}"
        )
    for key in given:
        if key not in known:
            raise WeftError(f"a file has no setting {key!r}; {did_you_mean(str(key), known)}")
    settings: dict[str, Any] = {str(key): value for key, value in given.items() if value is not None}
    if not isinstance(settings.get("path"), str | Path) or not str(settings["path"]):
        raise WeftError(f"path: expected a file; found {settings.get('path')!r}")
    if settings.get("format") != HUB:
        path = Path(settings["path"]).expanduser()
        settings["path"] = path if folder is None else folder / path
    return Source(**settings)
