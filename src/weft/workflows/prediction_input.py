"""Opening what `weft predict` reads: a file of any format, standard input, or texts of the command line."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weft.data.readers.formats import FORMATS, format_of
from weft.data.readers.streamed import (
    Lines,
    Row,
    Rows,
    RowStream,
    first_line,
    json_rows,
    stream_delimited,
    stream_lines,
    stream_table,
    text_rows,
)
from weft.data.readers.streamed_parquet import stream_parquet
from weft.errors import WeftError, did_you_mean
from weft.utils.notes import Tell

if TYPE_CHECKING:
    from weft.data.readers.source import Source
    from weft.inference.requests import RequestReader
    from weft.workflows.prediction_source import KnownFile

STANDARD_INPUT = "-"
TEXT = "text"
"""The format of files with one text per line, which only predictions read."""
STREAMED = ("jsonl", TEXT, "csv", "tsv", "parquet")
"""The formats that are read row by row; files of others are read whole."""
TYPED = "the command line"
"""The place of texts that are options of the command."""
JSON_LINES = (".jsonl", ".json", ".ndjson")


def open_texts(texts: Sequence[str], second: Sequence[str]) -> RowStream:
    """Return the texts of the command line, or pairs of texts, as rows."""
    if second and len(second) != len(texts):
        raise WeftError(
            f"found {len(texts)} --text and {len(second)} --text2; expected one --text2 for each --text"
        )
    values: list[Any] = list(zip(texts, second, strict=True)) if second else list(texts)
    rows: Rows = (Row(number, value) for number, value in enumerate(values, 1))
    return RowStream(TYPED, rows, unit="--text")


def open_file(
    file: Path,
    reader: RequestReader,
    *,
    form: str | None = None,
    texts_by_line: bool = False,
    known: KnownFile,
    tell: Tell,
) -> RowStream:
    """Open a file, a pipe, or standard input (`-`).

    Args:
        file: the path.
        reader: knows which columns are needed.
        form: the format; None: by the ending of the name.
        texts_by_line: whether a file with no known ending has one text per line; else JSON.
        known: how the run read this file, if it did.
        tell: called with a note about a guess.
    """
    form = form or (None if known.source is None else known.source.format)
    if form is not None and form not in (*STREAMED, *FORMATS):
        raise WeftError(f"--format {form}: {did_you_mean(form, (*STREAMED, *FORMATS))}")
    # a guess is corrected by the first line: a JSON object is hardly ever a text to predict
    guessed = None if form is not None else (TEXT if texts_by_line else "jsonl")
    if str(file) == STANDARD_INPUT:
        from weft.data.readers.piped import standard_input

        return _piped("standard input", standard_input(), form or _of_guess(guessed), guessed, tell)
    _check_file(file)
    if not file.is_file():
        from weft.data.readers.piped import lines_of

        descriptor = os.open(file, os.O_RDONLY)
        stream = _piped(str(file), lines_of(descriptor), form or _of_guess(guessed), guessed, tell)
        stream.close = lambda: os.close(descriptor)
        return stream
    certain = form or _by_ending(file)
    if known.whole and certain is not None:
        return _whole(file, certain, reader, known.source)
    return _opened(file, certain or _of_guess(guessed), None if certain else guessed, reader, known, tell)


def _opened(
    file: Path,
    form: str,
    guessed: str | None,
    reader: RequestReader,
    known: KnownFile,
    tell: Tell,
) -> RowStream:
    from weft.data.readers.dialect import Dialect
    from weft.data.readers.dialect_choice import Keys, choose_dialect
    from weft.data.readers.encoding import check_encoding, file_encoding

    keys = Keys(*(known.keys.get(key) for key in ("encoding", "delimiter", "quotes")))
    if form in ("jsonl", TEXT):
        # JSON is UTF-8; lines of text may be in any encoding
        named = keys.encoding
        encoding = file_encoding(file, guess=form == TEXT) if named is None else check_encoding(named)
        return stream_lines(file, encoding, _parser(form, guessed, str(file), tell))
    if form in ("csv", "tsv"):
        plain = Dialect() if form == "csv" else Dialect(delimiter="\t", quotes=False)
        names = known.keys.get("header")
        needed = reader.needed
        if _is_blank(file):  # as lines of JSON or text without a line
            return RowStream(str(file), iter(()))
        choice = choose_dialect(file, plain, keys.checked(file), needed, names, ragged=bool(needed))
        for note in choice.notes:
            tell(f"{file}: {note}")
        return stream_delimited(file, choice.dialect, names, choice.hint)
    if form == "parquet":
        return stream_parquet(file, reader.wanted)
    return _whole(file, form, reader, known.source)


def _whole(file: Path, form: str, reader: RequestReader, source: Source | None) -> RowStream:
    """Read a file of a format whose rows are not lines."""
    from weft.data.readers.columns import read_columns
    from weft.data.readers.read import read_rows
    from weft.data.readers.source import Source

    task = reader.default
    if task is None:
        raise WeftError(f"{file}: a file of the format {form} names no task; type: --task NAME")
    read = Source(file, form) if source is None else source
    return stream_table(read_rows(read, read_columns(task), reader.kept_columns))


def _piped(name: str, lines: Lines, form: str, guessed: str | None, tell: Tell) -> RowStream:
    if form not in ("jsonl", TEXT):
        raise WeftError(
            f"{name}: --format {form}: expected jsonl or text; write {form} to a file and name it"
        )
    return RowStream(name, _parser(form, guessed, name, tell)(lines))


def _parser(form: str, guessed: str | None, name: str, tell: Tell) -> Callable[[Lines], Rows]:
    parse = text_rows if form == TEXT else json_rows
    if guessed != TEXT:
        return parse

    def by_first_line(lines: Lines) -> Rows:
        first, every = first_line(lines)
        if not _is_object(first):
            return text_rows(every)
        tell(f"{name}: its first line is a JSON object, so each line is read as JSON; else: --format text")
        return json_rows(every)

    return lambda lines: _later(by_first_line, lines)


def _later(parse: Callable[[Lines], Rows], lines: Lines) -> Rows:
    """Read nothing before the first row is needed: a pipe may be empty for a long time."""
    yield from parse(lines)


def _is_object(line: str) -> bool:
    if not line.lstrip("\ufeff \t").startswith("{"):
        return False
    try:
        return isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):
        return False


def _of_guess(guessed: str | None) -> str:
    return guessed or "jsonl"


def _by_ending(file: Path) -> str | None:
    name = file.name.lower().removesuffix(".gz")
    if name.endswith(".json"):
        return "squad" if _is_squad(file) else "jsonl"
    if name.endswith(JSON_LINES):
        return "jsonl"
    if name.endswith((".tab", ".tsv")):
        return "tsv"
    return format_of(file.name)


def _is_squad(file: Path) -> bool:
    """Whether a .json file is one object with "data", as SQuAD's are, and not one object per line."""
    from weft.data.readers.encoding import read_sample

    sample = read_sample(file, 1 << 16)[0].decode("utf-8-sig", "replace").lstrip()
    first = sample.split("\n", 1)[0]
    return sample.startswith("{") and '"data"' in sample and not _is_request(first)


def _is_blank(file: Path) -> bool:
    """Whether a file of text has no line that is not blank."""
    from weft.data.readers.encoding import read_sample

    data, whole = read_sample(file, 1 << 16)
    return whole and not data.strip(b"\xef\xbb\xbf \t\r\n")


def _is_request(line: str) -> bool:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return False
    return isinstance(value, dict) and not isinstance(value.get("data"), list)


def _check_file(file: Path) -> None:
    if file.is_dir():
        raise WeftError(f"{file}: found a folder; expected a file")
    if not file.exists():
        raise WeftError(f"{file}: there is no such file")
