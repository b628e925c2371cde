"""conll files: one word per line with its tag, and a blank line between sentences.

The values of a line are separated by tabs if it contains one, else by spaces. By default the first value is
the word and the last the tag. All lines have equally many values. `-DOCSTART-` lines are skipped.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from weft.data.readers.encoding import encoding_notes
from weft.data.readers.lines import text_lines
from weft.data.readers.problem import DataError, Problem, show
from weft.data.readers.table import Table, no_rows, wanted_columns
from weft.utils.counted import counted

_EXPECTED = "expected a word and its tag, separated by a tab or spaces, and a blank line between sentences"


def read_conll(
    path: Path,
    columns: Sequence[str],
    optional: Sequence[str] = (),
    *,
    word: int = 0,
    tag: int = -1,
    encoding: str | None = None,
) -> Table:
    """Read sentences as `tokens` and `ner_tags`, two lists of strings; their line is that of the first word.

    Args:
        path: the file.
        columns: the required columns.
        optional: columns that are read if the file has them.
        word: the index of the word among a line's values, from 0; −1 is the last.
        tag: the index of the tag. Lines with one value have no tags.
        encoding: Python's name of the encoding; None: detected.
    """
    source = str(path)
    tokens: list[object] = []
    tags: list[object] = []
    lines: list[int] = []
    width: int | None = None
    words: list[str] = []
    labels: list[str] = []
    with text_lines(path, encoding, guess=True) as text:
        for number, line in enumerate(text, 1):
            line = line.rstrip("\r\n")
            # WNUT's files have lines with a single tab between sentences
            if not line.strip(" \t") or line.startswith("-DOCSTART-"):
                if words:
                    tokens.append(words)
                    tags.append(labels)
                    words, labels = [], []
                continue
            values = line.split("\t") if "\t" in line else [value for value in line.split(" ") if value]
            if len(values) != width:
                width = _width(source, number, line, values, width, word, tag)
            if not words:
                lines.append(number)
            words.append(_value(source, number, values, word, "tokens"))
            if width > 1:
                labels.append(_value(source, number, values, tag, "ner_tags"))
    if words:
        tokens.append(words)
        tags.append(labels)
    if not tokens or width is None:
        raise no_rows(source)
    known = ["tokens", "ner_tags"] if width > 1 else ["tokens"]
    hint = f"; its lines have {width} value{'s' * (width > 1)}; {_EXPECTED}"
    chosen = wanted_columns(source, known, columns, optional, row=lines[0], unit="line", hint=hint)
    both = {"tokens": tokens, "ner_tags": tags}
    notes = encoding_notes(path, encoding, guess=True)
    values = {column: both[column] for column in chosen}
    return Table(source, values, np.array(lines, np.int64), "line", notes=notes)


def _width(
    source: str, number: int, line: str, values: list[str], width: int | None, word: int, tag: int
) -> int:
    """Return the number of values of a line; refuse a line that differs from the first."""
    if width is None:
        for column, index in (("tokens", word), ("ner_tags", tag)):
            if not -len(values) <= index < len(values):
                what = counted(len(values), "value")
                message = f"found {what}; expected one at index {index}, the option's value"
                raise DataError(Problem(source, message, number, column, line[:80], "line"))
        return len(values)
    if len(values) != width:
        column = "ner_tags" if len(values) < width else "tokens"
        description = f"found {counted(len(values), 'value')} in {show(line)}"
        message = f"{description}; expected {width}, as in the first line; {_EXPECTED}"
        raise DataError(Problem(source, message, number, column, line[:80], "line"))
    return width


def _value(source: str, number: int, values: list[str], index: int, column: str) -> str:
    value = values[index]
    if not value or value.isspace():
        message = f"found {show(value)}; {_EXPECTED}"
        raise DataError(Problem(source, message, number, column, value, "line"))
    return value
