"""jsonl files: one JSON object per line; its keys are the columns."""

from __future__ import annotations

import json
from array import array
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from weft.data.readers.lines import text_lines
from weft.data.readers.problem import DataError, Problem, show
from weft.data.readers.short_strings import ShortStrings
from weft.data.readers.table import Table, no_rows, wanted_columns


def read_jsonl(
    path: Path, columns: Sequence[str], optional: Sequence[str] = (), *, encoding: str | None = None
) -> Table:
    """Read some columns of a jsonl file; a key that a line lacks is read as None."""
    source = str(path)
    requested = list(dict.fromkeys((*columns, *optional)))
    values: dict[str, list[object]] = {column: [] for column in requested}
    same = ShortStrings()
    lines = array("q")  # a list would hold one object per number
    known: dict[str, None] = {}
    for number, record in parsed_lines(path, encoding):
        lines.append(number)
        known.update(dict.fromkeys(record))
        for column in requested:
            values[column].append(same(record.get(column)))
    if not lines:
        raise no_rows(source)
    chosen = wanted_columns(source, list(known), columns, optional, hint="; no line has this key")
    return Table(
        source, {column: values[column] for column in chosen}, np.array(lines, np.int64), "line", own=True
    )


def parsed_lines(path: Path, encoding: str | None = None) -> Iterator[tuple[int, dict[str, object]]]:
    """Yield (line number, object) for the lines that are not blank."""
    source = str(path)
    with text_lines(path, encoding) as text:
        for number, line in enumerate(text, 1):
            if line.strip():
                yield number, _parsed(source, number, line)


def _parsed(source: str, number: int, line: str) -> dict[str, object]:
    expected = 'expected one JSON object per line, such as {"text": "It rains.", "label": 1}'
    try:
        parsed = json.loads(line)
    except json.JSONDecodeError as failed:
        rest = line[failed.pos :].rstrip("\r\n")
        message = f"not JSON: {failed.msg} at character {failed.colno}, before {show(rest, 40)}; {expected}"
        raise DataError(Problem(source, message, number, None, rest[:80], "line")) from None
    except (ValueError, RecursionError) as failed:
        # numbers of thousands of digits, lists nested thousands deep
        message = f"JSON that cannot be read ({failed}); {expected}"
        raise DataError(Problem(source, message, number, None, line[:80], "line")) from None
    if not isinstance(parsed, dict):
        message = f"found {show(parsed, 40)}; {expected}"
        raise DataError(Problem(source, message, number, None, line[:80].strip(), "line"))
    return parsed
