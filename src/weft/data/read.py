"""Reading the columns that a task needs from a file of any known format, or from rows in memory."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np

from weft.data.delimited import read_csv, read_tsv
from weft.data.json_lines import read_jsonl
from weft.data.parquet import read_parquet
from weft.data.problem import DataError, Problem, show
from weft.data.table import Table, no_rows, wanted_columns

Rows = Sequence[Mapping[str, object]]
Reader = Callable[[Path, Sequence[str], Sequence[str]], Table]

FORMATS: dict[str, Reader] = {
    ".csv": read_csv,
    ".csv.gz": read_csv,
    ".jsonl": read_jsonl,
    ".jsonl.gz": read_jsonl,
    ".parquet": read_parquet,
    ".tsv": read_tsv,
    ".tsv.gz": read_tsv,
}
"""How a name ends → who reads it. A new format is one file and one line here."""


def read_rows(
    path: str | Path | Rows, columns: Sequence[str], optional: Sequence[str] = (), name: str | None = None
) -> Table:
    """Read some columns of a file or of rows in memory.

    Values are what the format gives: strings from csv and tsv, anything from jsonl, parquet and rows. A value
    that is not there is None. Blank lines of text files are skipped.

    Args:
        path: a file whose name ends as one of `FORMATS`, or a sequence of dicts.
        columns: the columns that must be there.
        optional: columns that are read where they are there.
        name: what messages call rows in memory.

    Raises:
        DataError: a `WeftError` with the file, the row, the column, the value found and what was expected.
    """
    if not isinstance(path, str | Path):
        return _from_memory(path, columns, optional, name or "rows in memory")
    path = Path(path).expanduser()
    for suffix, reader in FORMATS.items():
        if path.name.lower().endswith(suffix):
            try:
                _must_exist(path)
                return reader(path, columns, optional)
            except OSError as failed:
                message = f"the file cannot be read: {failed.strerror or failed}"
                raise DataError(Problem(str(path), message)) from failed
    message = f"found the ending {path.suffix!r}; expected a name that ends in {', '.join(FORMATS)}"
    raise DataError(Problem(str(path), message, value=path.suffix))


def _must_exist(path: Path) -> None:
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
        message += f" The folder holds: {shown or 'nothing'}"
    if not path.is_absolute():
        message += f" (looked for from {str(Path.cwd())!r})"
    raise DataError(Problem(str(path), message))


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
