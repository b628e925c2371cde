"""Sample: the first records of a file, how many it has, and how the run file names it."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any

from weft.data.drafting.file_format import FileFormat, detect_format
from weft.data.readers.dialect import Dialect, long_fields
from weft.data.readers.formats import FORMATS, format_of
from weft.data.readers.json_lines import parsed_lines
from weft.data.readers.json_list import objects
from weft.data.readers.lines import text_lines
from weft.data.readers.parquet_batches import parquet_batches
from weft.data.readers.problem import DataError, Problem
from weft.data.readers.read import read_rows
from weft.data.readers.source import as_source
from weft.data.readers.table import no_rows, wanted_columns
from weft.utils.safe_json import parse_json

QUESTIONS = ("id", "question", "context", "answers")
RECORDS = 20_000
"""How many records of a file are kept."""
WHOLE = 64_000_000
"""Up to this number of bytes all records of a text file are counted, and all labels are read."""
RAGGED = 0.02
"""Up to this share of lines with too few or too many values are left out; more of them are an error."""


@dataclass(frozen=True)
class Sample:
    """The first records of a file.

    Attributes:
        path: the file.
        format: how it is read.
        columns: the values of each column in these records; None is missing.
        total: the number of records in the file; an estimate if the file is large, None if that is not known.
        exact: whether `total` is counted.
        options: options of the reader that the run file must give, such as the header.
        notes: what a user should know about reading it.
        label_names: the names of label ids that the file itself holds (parquet), by column.
    """

    path: Path
    format: FileFormat
    columns: dict[str, list[object]]
    total: int | None
    exact: bool
    options: dict[str, Any] = field(default_factory=dict)
    label_names: dict[str, list[str]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def rows(self) -> int:
        """The number of records in the sample."""
        return len(next(iter(self.columns.values()), ()))

    @property
    def is_whole(self) -> bool:
        """Whether the sample holds every record."""
        return self.exact and self.total == self.rows

    @property
    def count(self) -> str:
        """The number of records in words: `1,500`, `about 2,000,000` or `more than 20,000`."""
        if self.total is None:
            return f"more than {self.rows:,}"
        return f"{self.total:,}" if self.exact else f"about {_rounded(self.total):,}"

    def entry(self, path: str, options: dict[str, Any] | None = None) -> str | dict[str, Any]:
        """Return the file as a run file names it: its path, with the keys that its reader needs."""
        settings: dict[str, Any] = {"path": path}
        if format_of(self.path.name) != self.format.format:
            settings["format"] = self.format.format
        settings |= self.dialect_keys
        if options := {**self.options, **(options or {})}:
            settings["options"] = options
        return path if len(settings) == 1 else settings

    @property
    def dialect_keys(self) -> dict[str, object]:
        """The keys `encoding`, `delimiter` and `quotes` that are not the format's default."""
        plain = Dialect(delimiter="\t", quotes=False) if self.format.format == "tsv" else Dialect()
        if self.format.dialect is not None:
            return self.format.dialect.keys(plain)
        return Dialect(self.format.encoding).keys(Dialect())

    def values(self, columns: Sequence[str]) -> tuple[dict[str, list[object]], bool]:
        """Return all values of some columns, and whether they are all; of a large file: the sample's."""
        known = [column for column in columns if column in self.columns]
        if self.is_whole or not known or (self.format.format != "parquet" and _size(self.path) > WHOLE):
            return {column: self.columns[column] for column in known}, self.is_whole
        return _read_columns(self, known), True


def read_sample(path: Path, records: int | None = None) -> Sample:
    """Read the first records of a file of any format.

    Raises:
        DataError: the file is empty, or no reader fits.
    """
    records = RECORDS if records is None else records
    form = detect_format(path)
    if form.format == "parquet":
        return _parquet(path, form, records)
    if form.dialect is not None:
        return _delimited(path, form, form.dialect, records)
    if form.format == "jsonl":
        return _lines(path, form, records)
    # nested files are read whole by their readers
    columns = {"conll": ("tokens", "ner_tags"), "squad": QUESTIONS, "mrqa": QUESTIONS}.get(form.format, ())
    if form.format == "json":
        columns = tuple(dict.fromkeys(key for _, entry in objects(path, form.encoding) for key in entry))
    table = FORMATS[form.format].read(path, (), columns, encoding=form.encoding)
    return Sample(path, form, _first(table.columns, records), len(table), True)


def _read_columns(sample: Sample, columns: Sequence[str]) -> dict[str, list[object]]:
    """Read columns of the whole file by its reader."""
    return read_rows(as_source(sample.entry(str(sample.path))), columns).columns


def _first(columns: dict[str, list[object]], records: int) -> dict[str, list[object]]:
    return {name: values[:records] for name, values in columns.items()}


def _parquet(path: Path, form: FileFormat, records: int) -> Sample:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path) as file:
            schema, total = file.schema_arrow, file.metadata.num_rows
            wanted_columns(str(path), schema.names, schema.names)  # refuses two columns of one name
            columns: dict[str, list[object]] = {name: [] for name in schema.names}
            read = 0
            for batch in parquet_batches(path, file, rows=records):
                for name in schema.names:
                    columns[name] += batch[name].to_pylist()[: records - read]
                read += batch.num_rows
                if read >= records:
                    break
    except (pa.ArrowException, OSError) as failed:
        words = str(failed).strip().split("\n")[0]
        message = f"the file is not complete parquet: {words}; download or write it again"
        raise DataError(Problem(str(path), message)) from failed
    if not total:
        raise no_rows(str(path), "the file has no rows")
    return Sample(path, form, columns, total, True, label_names=_stored_names(schema.metadata or {}))


def _stored_names(metadata: Mapping[bytes, bytes]) -> dict[str, list[str]]:
    """Return the label names in a parquet file's metadata: a list per column, or those of `datasets`."""
    names: dict[str, list[str]] = {}
    for key, value in metadata.items():
        try:
            entry = parse_json(value)
        except ValueError:
            continue
        if isinstance(entry, list) and all(isinstance(name, str) for name in entry):
            names[key.decode(errors="replace")] = entry
        elif key == b"huggingface" and isinstance(entry, dict):
            info = entry.get("info")
            features = info.get("features") if isinstance(info, dict) else None
            for column, feature in features.items() if isinstance(features, dict) else ():
                inner = feature.get("feature", feature) if isinstance(feature, dict) else {}
                if isinstance(inner, dict) and isinstance(inner.get("names"), list):
                    names[column] = [str(name) for name in inner["names"]]
    return names


def _delimited(path: Path, form: FileFormat, dialect: Dialect, records: int) -> Sample:
    quoting: Any = csv.QUOTE_MINIMAL if dialect.quotes else csv.QUOTE_NONE
    ragged: list[int] = []

    def regular(rows: Any, width: int) -> Iterator[list[str]]:
        for row in rows:
            if len(row) == width:
                yield row
            elif row:  # a blank line has no values
                ragged.append(rows.line_num)

    with text_lines(path, dialect.encoding) as text, long_fields():
        reader = csv.reader(text, delimiter=dialect.delimiter, quoting=quoting, strict=True)
        try:
            first = next(row for row in reader if row)
            header = first if dialect.header else [f"column_{i}" for i in range(1, 1 + len(first))]
            rows = regular(reader, len(header))
            kept = [*([] if dialect.header else [first]), *islice(rows, records)]
            size = sum(len(value.encode()) + 1 for row in kept for value in row)
            total, exact = _counted(rows, len(kept), size, path)
        except csv.Error as failed:
            message = (
                f"broken quotes ({failed}); in csv, a text with quotes is quoted, and its quotes doubled"
            )
            raise DataError(Problem(str(path), message, reader.line_num, unit="line")) from failed
    columns: dict[str, list[object]] = {
        name: [row[at] for row in kept] for at, name in enumerate(header) if header.count(name) == 1
    }
    options: dict[str, Any] = {} if dialect.header else {"header": header}
    sample = Sample(path, form, columns, total, exact, options)
    if not ragged and kept:
        return sample
    if not kept or len(ragged) > RAGGED * len(kept):
        # the reader reports an empty file, or the first such line
        _read_columns(sample, header[:1])
    count = f"{len(ragged):,} line{'s' * (len(ragged) > 1)} with too few or too many values left out"
    notes = (f"{count}, the first ends in line {ragged[0]:,} of the file",)
    return replace(sample, options={**options, "ragged": "skip"}, notes=notes)


def _lines(path: Path, form: FileFormat, records: int) -> Sample:
    entries = (entry for _, entry in parsed_lines(path, form.encoding))
    kept = list(islice(entries, records))
    if not kept:
        raise no_rows(str(path))
    size = sum(len(json.dumps(entry, ensure_ascii=False).encode()) + 1 for entry in kept)
    total, exact = _counted(entries, len(kept), size, path)
    names = dict.fromkeys(key for entry in kept for key in entry)
    columns = {name: [entry.get(name) for entry in kept] for name in names}
    return Sample(path, form, columns, total, exact)


def _counted(rest: Iterator[object], count: int, size: int, path: Path) -> tuple[int | None, bool]:
    """Return the number of records, and whether it is counted; that of a large file is estimated.

    Args:
        rest: the records after the sample.
        count: the number of records in the sample.
        size: their size in bytes.
        path: the file.
    """
    if _size(path) <= WHOLE:
        return count + sum(1 for _ in rest), True
    if next(rest, None) is None:
        return count, True
    if path.name.lower().endswith(".gz"):
        return None, False
    return round(count * path.stat().st_size / max(size, 1)), False


def _rounded(number: int) -> int:
    scale = 10 ** max(len(str(number)) - 2, 0)
    return round(number / scale) * scale


def _size(path: Path) -> int:
    # a compressed text has about four times the size of its file
    return path.stat().st_size * (4 if path.name.lower().endswith(".gz") else 1)
