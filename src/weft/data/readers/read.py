"""Read the columns that a task needs from a file of any known format, or from rows in memory."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from weft.data.readers.encoding import encoding_notes
from weft.data.readers.formats import FORMATS, check_options, endings, format_of, options_of
from weft.data.readers.problem import DataError, Problem, show
from weft.data.readers.shaping import SHAPING, compute, exchanged, filter_columns, filtered, separate
from weft.data.readers.source import HUB, Source
from weft.data.readers.table import Table, no_rows, wanted_columns
from weft.errors import words
from weft.tasks.in_memory import RowsInMemory, RowsRecord

Rows = Sequence[Mapping[str, object]]


def read_rows(
    path: str | Path | Source | RowsInMemory | RowsRecord | Rows,
    columns: Sequence[str],
    optional: Sequence[str] = (),
    name: str | None = None,
) -> Table:
    """Read some columns of a file or of rows in memory.

    The format decides on the types of values: strings in csv and tsv, any type in jsonl, parquet and rows.
    A missing value is None. Blank lines of text files are skipped.

    Args:
        path: a file whose name has one of the `endings()`, a `Source`, a sequence of dicts, or the rows of a
            data frame.
        columns: the required columns.
        optional: columns that are read if the file has them.
        name: the name of rows in memory in messages.

    Raises:
        DataError: a `WeftError` with the file, the row, the column, the value found and what was expected.
    """
    if isinstance(path, Source):
        return _from_source(path, columns, optional)
    if isinstance(path, RowsRecord):
        raise DataError(Problem(name or "rows in memory", not_stored(path)))
    if isinstance(path, RowsInMemory):
        return _from_frame(path, columns, optional)
    if not isinstance(path, str | Path):
        return _from_memory(path, columns, optional, name or "rows in memory")
    return _from_file(Path(path).expanduser(), None, {}, columns, optional)


def _from_file(
    path: Path, form: str | None, options: Mapping[str, Any], columns: Sequence[str], optional: Sequence[str]
) -> Table:
    form = form or format_of(path.name)
    if form is None:
        message = (
            f"found the ending {path.suffix!r}; expected a name that ends in {', '.join(sorted(endings()))}; "
            "for any other ending, set the format: {path: FILE, format: NAME}"
        )
        raise DataError(Problem(str(path), message, value=path.suffix))
    try:
        if form != HUB:
            must_exist(path)
        table = FORMATS[form].read(path, columns, optional, **options)
    except OSError as failed:
        message = f"the file cannot be read: {failed.strerror or failed}"
        raise DataError(Problem(str(path), message)) from failed
    if table.notes or "encoding" not in options_of(form):
        return table
    return replace(table, notes=encoding_notes(path, options.get("encoding")))


def _from_source(source: Source, columns: Sequence[str], optional: Sequence[str]) -> Table:
    """Read columns by the file's names, filter and transform the rows, and use the task's column names."""
    form = source.form
    options = {} if form is None else check_options(form, source.options, SHAPING)
    computed: Mapping[str, Any] = source.options.get("computed", {})
    needed, wanted = (_by_file(source, names) for names in (columns, optional))
    table = _inputs(source, form, options, [*needed.values()], [*wanted.values()])
    table = filtered(table, source.options, source.path.parent)
    columns_read: dict[str, list[object]] = {}
    for column, name in (*needed.items(), *wanted.items()):
        if name in computed:
            (inputs,) = computed[name].values()
            if not all(input_column in table.columns for input_column in inputs):
                continue  # an optional column whose inputs are missing; see _inputs
            columns_read[column] = compute(table, name, computed[name])
        elif (values := _values(table, name)) is not None:
            columns_read[column] = values
        elif column in needed:
            # raises the reader's own message for a missing column
            _from_file(source.path, form, options, [name], ())
            raise DataError(Problem(table.source, "there is no such column", None, name))
    for column, separator in source.options.get("separated", {}).items():
        if column in columns_read:
            columns_read[column] = separate(columns_read[column], separator)
    for column, mapping in source.options.get("values", {}).items():
        if column in columns_read:
            columns_read[column] = exchanged(columns_read[column], mapping)
    names = {column: source.columns[column] for column in columns_read if column in source.columns}
    return replace(table, columns=columns_read, names=names)


def _by_file(source: Source, names: Sequence[str]) -> dict[str, str]:
    return {name: source.columns.get(name, name) for name in names}


def _inputs(
    source: Source, form: str | None, options: Mapping[str, Any], needed: list[str], wanted: list[str]
) -> Table:
    """Read the file's columns that the task's columns are built from."""
    computed: Mapping[str, Any] = source.options.get("computed", {})

    def inputs(names: list[str]) -> list[str]:
        lists = (next(iter(computed[name].values())) if name in computed else [name] for name in names)
        return [column for columns in lists for column in columns]

    must, may = [*inputs(needed), *filter_columns(source.options)], inputs(wanted)
    nested = [name for name in (*must, *may) if "." in name]
    plain = [name for name in must if name not in nested]
    others = [form for name in nested for form in (name, name.replace(".", "_"), name.partition(".")[0])]
    return _from_file(source.path, form, options, plain, [*(n for n in may if n not in nested), *others])


def _values(table: Table, name: str) -> list[object] | None:
    """Return the values of a column; `a.b` may be a column, the column `a_b`, or the key b of column a."""
    for form in (name, name.replace(".", "_")):
        if form in table.columns:
            return table.columns[form]
    first, _, key = name.partition(".")
    if not key or first not in table.columns:
        return None
    values: list[object] = []
    for row, value in zip(table.row, table.columns[first], strict=True):
        if value is not None and not isinstance(value, Mapping):
            message = f"found {show(value)}; expected an object with the key {key!r}"
            raise DataError(Problem(table.source, message, int(row), first, value, table.unit))
        values.append(None if value is None else value.get(key))
    return values


def must_exist(path: Path) -> None:
    """Refuse a path that is no file; the message lists what the folder holds."""
    if path.is_dir():
        raise DataError(Problem(str(path), "found a folder; expected a file"))
    if path.exists():
        return
    message = "there is no such file"
    if not path.parent.is_dir():
        message += f", nor the folder {str(path.parent)!r}"
    else:
        others = sorted(p.name for p in path.parent.iterdir() if p.is_file() and not p.name.startswith("."))
        near = difflib.get_close_matches(path.name, others, n=1, cutoff=0.6)
        message += f"; did you mean {near[0]!r}?" if near else ";"
        shown = ", ".join(others[:8]) + (", …" if len(others) > 8 else "")
        message += f" the folder holds: {shown or 'nothing'}"
    if not path.is_absolute():
        message += f" (relative to {str(Path.cwd())!r})"
    raise DataError(Problem(str(path), message))


def not_stored(record: RowsRecord) -> str:
    """Say that a run's file names rows that were in memory."""
    return (
        f"the run read {record.rows} rows from memory (a frame or a list), which run.yaml does not hold; "
        + words("write them to a file and name it", "pass them again: tasks=[weft.Task(…, data=…)]")
    )


def _from_frame(rows: RowsInMemory, columns: Sequence[str], optional: Sequence[str]) -> Table:
    """Read columns of rows in memory; a row is named as the frame names it."""
    chosen = wanted_columns(rows.source, rows.names, columns, optional)
    if not len(rows):
        raise no_rows(rows.source, "there are no rows")
    row = np.array(rows.row_names)
    if not np.issubdtype(row.dtype, np.integer):
        row = np.array(rows.row_names, object)
    return Table(rows.source, {column: rows.column(column) for column in chosen}, row, "index")


def _from_memory(rows: object, columns: Sequence[str], optional: Sequence[str], source: str) -> Table:
    if not isinstance(rows, Sequence) or isinstance(rows, bytes):
        message = f"found {type(rows).__name__}; expected a file's path or a sequence of dicts"
        raise DataError(Problem(source, message, value=show(rows)))
    known: dict[str, None] = {}
    for number, row in enumerate(rows, 1):
        if not isinstance(row, Mapping):
            message = f"found {show(row)}; expected a dict, such as {{'text': 'It rains.', 'label': 1}}"
            raise DataError(Problem(source, message, number, None, row))
        known.update(dict.fromkeys(row))
    if not rows:
        raise no_rows(source, "there are no rows")
    chosen = wanted_columns(
        source, [str(key) for key in known], columns, optional, hint="; no row has this key"
    )
    values = {column: [row.get(column) for row in rows] for column in chosen}
    return Table(source, values, np.arange(1, len(rows) + 1))
