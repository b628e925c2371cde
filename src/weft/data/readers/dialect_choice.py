"""The dialect of a csv or tsv file: the configured keys, the format's default, or the detected one.

A format's default is kept wherever it reads the file: equally many values in each record, and the required
columns among them. Detection decides only on files that the default cannot read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from weft.data.readers.dialect import DELIMITERS, Dialect, dialect_of, looks_escaped, parsed_records
from weft.data.readers.encoding import check_encoding, decode_sample, file_encoding, read_sample
from weft.errors import WeftError

_NAMES = {"tab": "\t", "\\t": "\t"}
"""Other spellings of a delimiter: YAML reads '\\t' in single quotes as two characters."""


@dataclass(frozen=True)
class Keys:
    """The configured keys of a file; None: detected.

    Attributes:
        encoding: Python's name of the encoding.
        delimiter: the character between values.
        quotes: whether values may be quoted.
    """

    encoding: str | None = None
    delimiter: str | None = None
    quotes: bool | None = None

    def checked(self, path: Path) -> Keys:
        """Return the keys with their spelling unified; refuse invalid ones."""
        delimiter = self.delimiter
        if isinstance(delimiter, str):
            delimiter = _NAMES.get(delimiter, delimiter)
        if delimiter is not None and (not isinstance(delimiter, str) or len(delimiter) != 1):
            raise WeftError(f"{path}: options: delimiter: expected one character; found {delimiter!r}")
        if delimiter is not None and delimiter in '"\r\n':
            raise WeftError(
                f"{path}: options: delimiter: {delimiter!r} cannot separate values; expected one such as ';'"
            )
        if self.quotes is not None and not isinstance(self.quotes, bool):
            raise WeftError(f"{path}: options: quotes: expected true or false; found {self.quotes!r}")
        try:
            encoding = None if self.encoding is None else check_encoding(self.encoding)
        except WeftError as wrong:
            raise WeftError(f"{path}: options: {wrong}") from None
        return Keys(encoding, delimiter, self.quotes)


@dataclass(frozen=True)
class Choice:
    """How a file is read.

    Attributes:
        dialect: the dialect.
        notes: what `weft check` reports about it.
        hint: what to write if the file cannot be read with it; empty if nothing else fits better.
    """

    dialect: Dialect
    notes: tuple[str, ...] = ()
    hint: str = ""


def choose_dialect(
    path: Path,
    plain: Dialect,
    keys: Keys,
    columns: Sequence[str],
    names: Sequence[str] | None = None,
    ragged: bool = False,
) -> Choice:
    """Return the dialect to read a file with.

    Args:
        path: the file.
        plain: the format's default.
        keys: the configured keys.
        columns: the required columns.
        names: the configured column names of a file without a header.
        ragged: whether records with too few or too many values are accepted.
    """
    encoding = keys.encoding or file_encoding(path)
    data, whole = read_sample(path)
    text = decode_sample(data, encoding, whole)
    base = replace(
        plain,
        encoding=encoding,
        delimiter=keys.delimiter or plain.delimiter,
        quotes=plain.quotes if keys.quotes is None else keys.quotes,
    )
    found = dialect_of(text, encoding, replace(base, encoding="utf-8"), whole)
    if _fits(text, base, whole, columns, names, ragged):
        return Choice(base, (*_notes(base, plain, keys), *_doubts(text, base, whole, keys)))
    chosen = _within(text, base, keys, whole)
    if chosen != base and not (
        _fits(text, chosen, whole, columns, names, ragged) or _width(text, base, whole) == 1
    ):
        chosen = base
    return Choice(chosen, _notes(chosen, plain, keys), _hint(found, chosen))


def _within(text: str, base: Dialect, keys: Keys, whole: bool) -> Dialect:
    """Detect the dialect within the configured keys."""
    delimiters = DELIMITERS if keys.delimiter is None else (keys.delimiter,)
    quotes = (True, False) if keys.quotes is None else (keys.quotes,)
    found = dialect_of(text, base.encoding, base, whole, delimiters, quotes)
    if found.delimiter == base.delimiter and base.quotes and not found.quotes:
        # broken quotes in a csv file are more often a damaged line than plain characters
        return base
    return replace(found, header=True)


def _fits(
    text: str,
    dialect: Dialect,
    whole: bool,
    columns: Sequence[str],
    names: Sequence[str] | None,
    ragged: bool,
) -> bool:
    """Whether the dialect reads all records of the text, with the required columns."""
    records = parsed_records(text, dialect.delimiter, dialect.quotes, whole)
    if records is None:
        return False
    if not records:
        return True
    header = records[0] if names is None else names
    return all(column in header for column in columns) and (
        ragged or all(len(record) == len(header) for record in records)
    )


def _width(text: str, dialect: Dialect, whole: bool) -> int:
    records = parsed_records(text, dialect.delimiter, dialect.quotes, whole)
    return max(map(len, records)) if records else 0


def key_text(key: str, value: object) -> str:
    """Return a key with its value as a run file writes it.

    Example:
        >>> key_text("delimiter", ";"), key_text("quotes", True)
        ("delimiter: ';'", 'quotes: true')
    """
    if isinstance(value, bool):
        return f"{key}: {str(value).lower()}"
    if value == "\t":
        return f'{key}: "\\t"'
    return f"{key}: {value!r}" if key == "delimiter" else f"{key}: {value}"


def _notes(dialect: Dialect, plain: Dialect, keys: Keys) -> tuple[str, ...]:
    """Return what was detected and is not the format's default."""
    detected = [
        key_text(key, value) for key, value in dialect.keys(plain).items() if getattr(keys, key) is None
    ]
    if not detected:
        return ()
    return (f"detected {', '.join(detected)}; if this is wrong, set these keys beside the file",)


def _doubts(text: str, dialect: Dialect, whole: bool, keys: Keys) -> tuple[str, ...]:
    """Return that the fields of a file read without quotes look quoted."""
    if dialect.quotes or keys.quotes is not None or '"' not in text:
        return ()
    records = parsed_records(text, dialect.delimiter, False, whole)
    if not records or not looks_escaped(records):
        return ()
    return (
        "texts look quoted, with the quotes inside doubled, but in tsv quotes are plain characters and are "
        "kept; if they only enclose the texts, write: quotes: true",
    )


def _hint(found: Dialect, used: Dialect) -> str:
    """Return the key to write if the file looks like a different dialect."""
    if found.delimiter != used.delimiter:  # the quotes of the right delimiter are detected
        delimiter = key_text("delimiter", found.delimiter)
        return f"it looks like delimiter {found.delimiter!r}. Write: {delimiter}"
    if found.quotes == used.quotes:
        return ""
    looks = "as if values were quoted" if found.quotes else "as if quotes were plain characters"
    return f"it looks {looks}. Write: {key_text('quotes', found.quotes)}"
