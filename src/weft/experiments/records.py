"""Records: what is kept of a finished cell, about 15 KB, apart from its weights.

A record is one compressed JSON file, `DIR/records/IDENTITY.json.gz`. It holds the settings, the metrics, the
curve of the evaluations, the trace of what was trained on, statistics of each reported row (from which the
metrics can be recomputed under any weights of the rows), parameter counts, seconds, and the machine. Its
name is the identity of the cell: a record is found by what was computed, not by the grid that asked for it.
`--pack` writes the records of a grid into one file, `--unpack` reads them on another machine.

A packed file also lists the grid's cells (`cells.json`): name, identity, and settings. So tables can be made
from it where the data and the encoder are not: the identities need not be computed.
"""

from __future__ import annotations

import gzip
import io
import json
import math
import re
import zipfile
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, Field, asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from weft.errors import WeftError, words
from weft.experiments.trace import problem_of
from weft.utils.files import write_bytes, write_output
from weft.utils.plain_files import check_plain_entries
from weft.utils.safe_json import parse_json

FORMAT = 1
"""The version of the file format."""
ENDING = ".json.gz"
LARGEST = 64 * 2**20
"""The largest record, in bytes, compressed or not; a record of fifty tasks has about 200,000."""
IDENTITY = re.compile(r"[0-9a-f]{64}")
OPTIONAL: dict[str, type] = {"chosen_by": dict, "memory": int, "step": int, "failed": str}
"""The types of fields that may be null."""
CELLS = "cells.json"
"""The file in a packed file that lists the grid's cells."""
AGAIN = "again"
"""The folder, here and in a packed file, of the records of runs that were trained a second time."""


@dataclass(frozen=True)
class Record:
    """A finished cell.

    Attributes:
        identity: see `weft.experiments.identity`.
        settings: the resolved run file, or the settings of another action, without paths.
        metrics: the metrics of each task on the reported split; its first is its score.
        chosen_by: the metrics on validation, if they are not the reported ones: `tune` chooses by them.
        rows: the number of reported examples by task.
        statistics: the row statistics in base64; see `weft.experiments.statistics`. "": none.
        curve: the evaluations during training: {"step": …, "tasks": {task: metrics}}.
        losses: the logged training losses: {"step": …, "loss": {task: loss}}.
        trace: the examples of each task over time, and its entropy; see `weft.experiments.trace`. Records of
            earlier versions have none.
        parameters: counts of parameters; see `weft.experiments.actions.train`.
        seconds: how long it took: `train`, and `all` with loading and evaluation.
        memory: the peak of the process's memory in bytes, on the GPU or on the host; None: not known.
        machine: the device, cores and versions.
        step: the step of the best weights.
        measures: further numbers that an action reports, by name.
        failed: why the cell failed; None: it did not. A failed cell runs again at the next call.
        format: the version of the file format.
    """

    identity: str
    settings: dict[str, Any] = field(default_factory=dict)
    metrics: dict[str, dict[str, float]] = field(default_factory=dict)
    chosen_by: dict[str, dict[str, float]] | None = None
    rows: dict[str, int] = field(default_factory=dict)
    statistics: str = ""
    curve: list[dict[str, Any]] = field(default_factory=list)
    losses: list[dict[str, Any]] = field(default_factory=list)
    trace: dict[str, Any] = field(default_factory=dict)
    parameters: dict[str, Any] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    memory: int | None = None
    machine: dict[str, Any] = field(default_factory=dict)
    step: int | None = None
    measures: dict[str, Any] = field(default_factory=dict)
    failed: str | None = None
    format: int = FORMAT

    @property
    def device(self) -> str | None:
        """The device that it was made on; None: not known."""
        device = self.machine.get("device")
        return str(device) if device else None

    def to_bytes(self) -> bytes:
        """The content of the record's file; equal records have equal bytes."""
        text = json.dumps(asdict(self), separators=(",", ":"), allow_nan=False)
        packed = io.BytesIO()
        with gzip.GzipFile(fileobj=packed, mode="wb", mtime=0, compresslevel=9) as stream:
            stream.write(text.encode())
        return packed.getvalue()


def read_record(content: bytes, source: str) -> Record:
    """Read the content of a record's file.

    Args:
        content: the bytes.
        source: the file's name, for messages.
    """
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(content)) as stream:
            text = stream.read(LARGEST + 1)
        if len(text) > LARGEST:
            raise WeftError(f"{source} is larger than any record")
        facts = parse_json(text)
    except (OSError, EOFError, ValueError, zlib.error) as wrong:
        raise WeftError(f"{source} is damaged: it is no record ({wrong}); delete it") from None
    known = {item.name for item in fields(Record)}
    if not isinstance(facts, dict) or not isinstance(facts.get("format"), int):
        raise WeftError(f"{source} is no record of weft; delete it")
    if facts["format"] > FORMAT:
        raise WeftError(f"{source} was written by a later version of weft; update weft, or delete it")
    if not isinstance(facts.get("identity"), str) or not IDENTITY.fullmatch(facts["identity"]):
        raise WeftError(f"{source} is no record of weft: it has no identity; delete it")
    record = Record(**{key: value for key, value in facts.items() if key in known})
    _check_types(record, source)
    return record


def _check_types(record: Record, source: str) -> None:
    """Refuse a record whose fields do not have their types: the file may come from a stranger."""
    for item in fields(Record):
        value, default = getattr(record, item.name), _default_of(item)
        wanted = OPTIONAL.get(item.name) or type(default)
        if value is None and item.name in OPTIONAL:
            continue
        if not isinstance(value, wanted) or (isinstance(value, bool) and wanted is not bool):
            raise WeftError(
                f"{source} is damaged: {item.name} is {type(value).__name__}, expected {wanted.__name__}; "
                "delete it"
            )
    numbers = [*record.seconds.items(), *record.rows.items()]
    tables = [("metrics", record.metrics), ("chosen_by", record.chosen_by or {})]
    for name, table in tables:
        for task, metrics in table.items():
            if not isinstance(metrics, dict):
                raise WeftError(f"{source} is damaged: {name} of {task!r} are no numbers; delete it")
            numbers += metrics.items()
    for name, value in numbers:
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            raise WeftError(f"{source} is damaged: {name!r} is {value!r}, expected a number; delete it")
    if not all(isinstance(entry, dict) for entry in (*record.curve, *record.losses)):
        raise WeftError(f"{source} is damaged: its curve is no list of evaluations; delete it")
    if (problem := problem_of(record.trace)) is not None:
        raise WeftError(f"{source} is damaged: {problem}; delete it")


def _default_of(item: Field[Any]) -> Any:
    if item.default_factory is not MISSING:
        return item.default_factory()
    return "" if item.default is MISSING else item.default


class Records:
    """The records in a folder.

    Args:
        folder: the folder of a comparison; records are in `records/` in it.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "records"

    @property
    def again(self) -> Records:
        """The records of runs that were trained a second time; see `weft.experiments.again`."""
        return Records(self.folder.parent / AGAIN)

    def path(self, identity: str) -> Path:
        """The file of a record."""
        return self.folder / f"{identity}{ENDING}"

    def read(self, identity: str) -> Record | None:
        """The record of an identity; None if there is none."""
        path = self.path(identity)
        try:
            content = path.read_bytes()
        except FileNotFoundError:
            return None
        record = read_record(content, str(path))
        if record.identity != identity:
            raise WeftError(f"{path} holds the record of {record.identity}; delete it")
        return record

    def write(self, record: Record) -> None:
        """Write a record; atomic."""
        self.folder.mkdir(parents=True, exist_ok=True)
        write_bytes(self.path(record.identity), record.to_bytes())

    def pack(self, identities: Iterable[str], file: Path, listed: Mapping[str, Any] | None = None) -> int:
        """Write records into one file; returns how many. Equal records make equal files.

        With each record goes that of the same run in `again`, if there is one; it is not counted.

        Args:
            identities: those of the records.
            file: the file.
            listed: what the file says of the runs, for `packed_cells`: `cells`, those of a grid by their
                names; or `grids`, the cells of several grids by theirs.
        """
        packed = io.BytesIO()
        count = 0
        with zipfile.ZipFile(packed, "w", zipfile.ZIP_STORED) as archive:
            if listed is not None:
                text = json.dumps({"format": FORMAT, **listed}, separators=(",", ":"), default=str)
                archive.writestr(zipfile.ZipInfo(CELLS), text, zipfile.ZIP_DEFLATED)
            for identity in sorted(set(identities)):
                path = self.path(identity)
                if path.is_file():
                    archive.writestr(zipfile.ZipInfo(path.name), path.read_bytes())
                    count += 1
                if (
                    self.again.read(identity) is not None
                ):  # a damaged one is reported here, not where it is read
                    second = self.again.path(identity)
                    archive.writestr(zipfile.ZipInfo(f"{AGAIN}/{second.name}"), second.read_bytes())
        write_output(file, packed.getvalue())
        return count

    def unpack(self, file: Path) -> tuple[int, int]:
        """Take over the records of a packed file; returns how many are new, and how many were there."""
        new = old = 0
        for name, content in packed_records(file):
            record = read_record(content, f"{file}: {name}")
            where = self.again if name.startswith(f"{AGAIN}/") else self
            if name.removeprefix(f"{AGAIN}/") != f"{record.identity}{ENDING}":
                raise WeftError(f"{file}: {name} holds the record of {record.identity}; the file is damaged")
            known = where.path(record.identity)
            if known.is_file() and where.read(record.identity) is not None:
                old += where is self
                continue
            where.folder.mkdir(parents=True, exist_ok=True)
            write_bytes(known, content)
            new += where is self
        return new, old


def packed_records(file: Path) -> list[tuple[str, bytes]]:
    """The names and contents of the records in a packed file."""
    return [(name, content) for name, content in _packed(file) if name != CELLS]


def packed_cells(file: Path, grid: str) -> dict[str, dict[str, Any]]:
    """The cells of a grid in a packed file, by their names: the `identity` and the `settings` of each.

    Args:
        file: the file.
        grid: the name of the grid, which counts if the file has several.
    """
    listed = [content for name, content in _packed(file) if name == CELLS]
    try:
        facts = parse_json(listed[0]) if listed else {}
        grids = facts["grids"] if "grids" in facts else {grid: facts["cells"]}
        grids = {name: {str(key): dict(cell) for key, cell in cells.items()} for name, cells in grids.items()}
    except (ValueError, TypeError, KeyError, AttributeError):
        grids = {}
    cells = [cell for of_grid in grids.values() for cell in of_grid.values()]
    if not cells or not all(IDENTITY.fullmatch(str(cell.get("identity"))) for cell in cells):
        how = words("weft compare GRID.yaml --pack FILE", "Records.pack")
        raise WeftError(f"{file} has no list of its runs; write the file again by {how}")
    if grid not in grids:
        raise WeftError(f"{file} has no runs of {grid!r}; it has those of {', '.join(grids)}")
    return grids[grid]


def _packed(file: Path) -> list[tuple[str, bytes]]:
    """The names and contents of all entries of a packed file."""
    check_plain_entries(file.parent, (file.name,), "a file of records")
    try:
        with zipfile.ZipFile(file) as archive:
            entries = archive.infolist()
            large = [entry.filename for entry in entries if entry.file_size > LARGEST]
            if large:
                raise WeftError(f"{file}: {large[0]} is larger than any record")
            return [(entry.filename, archive.read(entry)) for entry in entries]
    except FileNotFoundError:
        raise WeftError(f"there is no file {str(file)!r}") from None
    except (zipfile.BadZipFile, OSError, EOFError, NotImplementedError, RuntimeError, zlib.error) as wrong:
        how = words("weft compare GRID.yaml --pack FILE", "Records.pack")
        raise WeftError(
            f"{file} is damaged, or no file of packed records ({wrong}); copy it again, or write one by {how}"
        ) from None


def without_paths(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings without the names of folders and files: a record says nothing about the machine's disk."""
    return {key: _without(value) for key, value in settings.items()}


def _without(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_without(item) for item in value]
    if isinstance(value, str) and value.startswith(("/", "~")):
        return Path(value).name
    return value
