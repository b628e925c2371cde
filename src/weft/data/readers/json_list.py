"""json files that hold one list of objects; their keys are the columns."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from weft.data.readers.json_text import parsed_json
from weft.data.readers.lines import text_lines
from weft.data.readers.problem import DataError, Problem, show
from weft.data.readers.table import Table, no_rows, wanted_columns

_EXPECTED = 'expected a list of objects, such as [{"text": "It rains.", "label": 1}]'


def read_json_list(
    path: Path, columns: Sequence[str], optional: Sequence[str] = (), *, encoding: str | None = None
) -> Table:
    """Read some columns of a list of objects; a key that an object lacks is read as None.

    `.json` is the ending of SQuAD's files, so such a file needs its format: `{path: FILE, format: json}`.
    """
    source = str(path)
    entries = objects(path, encoding)
    known = list(dict.fromkeys(key for _, entry in entries for key in entry))
    chosen = wanted_columns(source, known, columns, optional, hint="; no object has this key")
    values = {column: [entry.get(column) for _, entry in entries] for column in chosen}
    return Table(source, values, np.array([number for number, _ in entries], np.int64))


def objects(path: Path, encoding: str | None = None) -> list[tuple[int, dict[str, object]]]:
    """Return (number from 1, object) for every object of the list."""
    source = str(path)
    with text_lines(path, encoding) as text:
        whole = text.read()
    if not whole.strip():
        raise no_rows(source)
    parsed = parsed_json(source, whole, _EXPECTED)
    if not isinstance(parsed, list):
        raise DataError(Problem(source, f"found {show(parsed, 40)}; {_EXPECTED}", value=show(parsed)))
    for number, entry in enumerate(parsed, 1):
        if not isinstance(entry, dict):
            raise DataError(Problem(source, f"found {show(entry, 40)}; {_EXPECTED}", number, None, entry))
    if not parsed:
        raise no_rows(source, "the list is empty")
    return list(enumerate(parsed, 1))
