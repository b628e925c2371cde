"""The format of a file, by its content first and by its name second."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from weft.data.readers.dialect import Dialect, dialect_of, plain_dialect
from weft.data.readers.encoding import decode_sample, encoding_of, read_sample
from weft.data.readers.formats import format_of
from weft.data.readers.problem import DataError, Problem, show
from weft.data.readers.read import must_exist
from weft.data.readers.table import no_rows

_KNOWN = "csv, tsv, jsonl, json (SQuAD's, or a list of objects), parquet or conll"
_FOREIGN = {
    b"PK\x03\x04": "it looks like a zip or Excel file: save it as csv",
    b"\xd0\xcf\x11\xe0": "it looks like an old Excel file: save it as csv",
    b"\x1f\x8b": "it looks like gzip: rename it to end in .gz",
    b"SQLite format 3": "it looks like a SQLite database: export the table as csv",
    b"%PDF": "it looks like a PDF",
    b"\x80\x04": "it looks like a Python pickle: write its rows as jsonl",
}


@dataclass(frozen=True)
class FileFormat:
    """How a file is read.

    Attributes:
        format: one of `weft.data.readers.formats.FORMATS`.
        dialect: of csv and tsv files; None for others.
        encoding: the encoding of a text file.
    """

    format: str
    dialect: Dialect | None = None
    encoding: str = "utf-8"


def detect_format(path: Path) -> FileFormat:
    """Return the format of a file.

    Raises:
        DataError: the file does not exist, is empty or binary, or no reader fits.
    """
    must_exist(path)
    data, whole = read_sample(path)
    if not data.strip():
        raise no_rows(str(path))
    if data.startswith(b"PAR1"):
        return FileFormat("parquet")
    for start, words in _FOREIGN.items():
        if data.startswith(start):
            raise DataError(Problem(str(path), f"no reader fits: {words}; expected {_KNOWN}"))
    encoding = encoding_of(path, data, whole)
    if b"\0" in data and not encoding.startswith(("utf-16", "utf-32")):
        message = f"found the byte 0x00, so this is no text file; expected {_KNOWN}"
        raise DataError(Problem(str(path), message))
    text = decode_sample(data, encoding, whole)
    by_name = format_of(path.name)
    may_be_json = by_name not in ("csv", "tsv") or text.lstrip()[:2] in ('{"', "[{")
    if may_be_json and (nested := _json_format(path, text, whole)) is not None:
        return FileFormat(nested, encoding=encoding)
    if by_name == "conll" or is_conll(text, whole):
        return FileFormat("conll", encoding=encoding)
    dialect = dialect_of(text, encoding, plain_dialect(path), whole)
    form = by_name if by_name in ("csv", "tsv") else ("tsv" if dialect.delimiter == "\t" else "csv")
    first = text.strip().splitlines()[0]
    if dialect.delimiter not in first and by_name is None:
        message = (
            f"found one value per line, such as {show(first, 40)}: no column of labels; expected {_KNOWN}"
        )
        raise DataError(Problem(str(path), message, 1, unit="line"))
    return FileFormat(form, dialect, encoding)


def _json_format(path: Path, text: str, whole: bool) -> str | None:
    """Return `jsonl`, `json`, `squad` or `mrqa`; None if the text is no JSON."""
    start = text.lstrip()
    if not start.startswith(("{", "[")):
        return None
    lines = [line for line in start.splitlines() if line.strip()]
    first = _parsed(lines[0])
    if isinstance(first, dict):
        if "header" in first and len(lines) > 1:
            return "mrqa"
        return "squad" if _is_squad(first) else "jsonl"
    if start.startswith("{"):
        # SQuAD's files begin with the version or the data, in one line or in many
        if '"paragraphs"' in start and '"data"' in start:
            return "squad"
        if whole and (entry := _parsed(start)) is not None:
            keys = ", ".join(map(str, entry)) if isinstance(entry, dict) else ""
            found = f"found one JSON object with the keys {keys[:80]}"
            message = f"{found}; expected one object per line (jsonl), a list of objects, or SQuAD's file"
            raise DataError(Problem(str(path), message))
        return None
    return "json" if start[1:].lstrip().startswith("{") else None


def _parsed(text: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _is_squad(entry: dict[str, object]) -> bool:
    data = entry.get("data")
    return isinstance(data, list) and bool(data) and isinstance(data[0], dict) and "paragraphs" in data[0]


def is_conll(text: str, whole: bool = True) -> bool:
    r"""Whether a text has one word per line with its tag, and blank lines between sentences.

    Example:
        >>> is_conll("Ann B-PER\nsleeps O\n\nBen B-PER\nruns O\n"), is_conll("text label\n\nhello 1\n")
        (True, False)
    """
    lines = text.split("\n") if whole else text.split("\n")[:-1]
    lines = [line.rstrip("\r") for line in lines if not line.startswith("-DOCSTART-")]
    blank = [not line.strip() for line in lines]
    rows = [line.split("\t") if "\t" in line else line.split() for line in lines if line.strip()]
    if len(rows) < 4 or not any(blank[1:-1]):
        return False
    width, count = Counter(map(len, rows)).most_common(1)[0]
    if width < 2 or count < 0.98 * len(rows) or any(" " in value for row in rows for value in row):
        return False
    tags = Counter(row[-1] for row in rows)
    bio = sum(
        count for tag, count in tags.items() if tag == "O" or tag[:2] in ("B-", "I-", "E-", "S-", "L-", "U-")
    )
    return bio >= 0.98 * len(rows) or (len(tags) <= 60 and 4 * len(tags) <= len(rows))
