r"""Dialect: the encoding, delimiter, quotes and header of a csv or tsv file, detected from its first bytes.

A delimiter is right if it gives every record the same number of fields. Each candidate is tried with quoted
fields (which may contain delimiters and line breaks) and without, and the most consistent one is chosen.
`csv.Sniffer` counts characters instead, and commas are frequent in texts.
"""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from weft.data.readers.encoding import SAMPLE, decode_sample, encoding_of, read_sample

DELIMITERS = (",", ";", "\t", "|")
"""The delimiters that detection knows."""
_CONSISTENT = 0.9
"""The share of records with equally many fields that makes a delimiter credible."""

Records = list[list[str]]


@dataclass(frozen=True)
class Dialect:
    """How a file separates its values.

    Attributes:
        encoding: Python's name, such as "utf-8", "utf-8-sig", "utf-16", "cp1252" or "latin-1".
        delimiter: the character between values.
        quotes: whether values may stand in double quotes, with quotes inside doubled.
        header: whether the first record names the columns.
    """

    encoding: str = "utf-8"
    delimiter: str = ","
    quotes: bool = True
    header: bool = True

    def keys(self, plain: Dialect) -> dict[str, object]:
        """The run-file keys `encoding`, `delimiter` and `quotes` that differ from the format's default."""
        values = {key: getattr(self, key) for key in ("encoding", "delimiter", "quotes")}
        if values["encoding"] == "utf-8-sig":
            values["encoding"] = "utf-8"  # a byte order mark is always skipped
        return {key: value for key, value in values.items() if value != getattr(plain, key)}


def plain_dialect(path: Path) -> Dialect:
    """Return the default of a file name's ending: tabs without quotes for .tsv, else commas and quotes."""
    name = path.name.lower().removesuffix(".gz")
    return Dialect(delimiter="\t", quotes=False) if name.endswith((".tsv", ".tab")) else Dialect()


def detect_dialect(path: Path, sample_bytes: int = SAMPLE) -> Dialect:
    """Detect how a file separates its values, from its first bytes.

    The default of the file name's ending is kept if nothing in the file speaks for a different one.

    Args:
        path: a text file; it is decompressed if its name ends in .gz.
        sample_bytes: how many bytes are read.

    Raises:
        DataError: the file cannot be read, or is in an encoding that cannot be detected.
    """
    data, whole = read_sample(path, sample_bytes)
    encoding = encoding_of(path, data, whole)
    return dialect_of(decode_sample(data, encoding, whole), encoding, plain_dialect(path), whole)


def dialect_of(
    text: str,
    encoding: str,
    plain: Dialect,
    whole: bool = True,
    delimiters: Sequence[str] = DELIMITERS,
    quotes: Sequence[bool] = (True, False),
) -> Dialect:
    r"""Return the dialect of a text.

    Args:
        text: the beginning of a file.
        encoding: its encoding.
        plain: the dialect that is preferred if several fit.
        whole: whether the text is the whole file; else its last record may be cut.
        delimiters: the candidates.
        quotes: the candidates.

    Example:
        >>> dialect_of('id;text\n1;"Well, no"\n2;"Yes; or no?"\n', "utf-8", Dialect())
        Dialect(encoding='utf-8', delimiter=';', quotes=True, header=True)
    """
    fits = []
    for delimiter in dict.fromkeys((plain.delimiter, *delimiters)):
        if delimiter in delimiters:
            tried = [_fit(text, delimiter, quoted, whole) for quoted in quotes]
            fits.append(_by_quotes([fit for fit in tried if fit is not None], plain))
    found = [fit for fit in fits if fit is not None and fit.width > 1]
    credible = [fit for fit in found if fit.share >= _CONSISTENT and fit.first]
    # without any consistent delimiter, a file of one column (or a broken one) keeps the default
    if credible:
        best = max(credible, key=lambda fit: (fit.share, not fit.prose, fit.delimiter == plain.delimiter))
        return Dialect(encoding, best.delimiter, best.quotes, has_header(best.records))
    kept = next((fit for fit in fits if fit is not None and fit.delimiter == plain.delimiter), None)
    if kept is None:
        return Dialect(encoding, plain.delimiter, plain.quotes, True)
    return Dialect(encoding, kept.delimiter, kept.quotes, has_header(kept.records))


@dataclass(frozen=True)
class _Fit:
    """How well a delimiter and quotes fit.

    Attributes:
        delimiter: the character.
        quotes: whether fields may be quoted.
        records: the records that are not blank.
        width: the most frequent number of fields.
        share: the share of records with this number.
        first: whether the first record has it.
        prose: whether most fields begin with a space, as the words after a comma do.
        escaped: whether quoted fields are evident: see `looks_escaped`.
    """

    delimiter: str
    quotes: bool
    records: Records
    width: int
    share: float
    first: bool
    prose: bool
    escaped: bool


def _fit(text: str, delimiter: str, quotes: bool, whole: bool) -> _Fit | None:
    """Return how well this dialect fits; None if quotes are broken or there is no record."""
    records = parsed_records(text, delimiter, quotes, whole)
    if not records:
        return None
    widths = Counter(map(len, records))
    width, count = max(widths.items(), key=lambda item: (item[1], item[0]))
    later = [field for record in records for field in record[1:]]
    prose = sum(field.startswith(" ") for field in later) > len(later) / 2
    escaped = not quotes and looks_escaped(records)
    return _Fit(
        delimiter,
        quotes,
        records,
        width,
        count / len(records),
        len(records[0]) == width,
        prose,
        escaped,
    )


def parsed_records(text: str, delimiter: str, quotes: bool, whole: bool) -> Records | None:
    """Split the beginning of a file into records that are not blank; None if its quotes are broken."""
    if not whole:  # the last line is cut
        end = max(text.rfind("\n"), text.rfind("\r"))
        text = text[: end + 1] if end >= 0 else text
    quoting: Any = csv.QUOTE_MINIMAL if quotes else csv.QUOTE_NONE
    lines = io.StringIO(text, newline="")
    reader = csv.reader(lines, delimiter=delimiter, quoting=quoting, strict=True)
    records: Records = []
    number = 0
    with long_fields():
        try:
            for record in reader:
                number = reader.line_num
                if record:
                    records.append(record)
        except csv.Error:
            # a quoted field cut by the sample's end; a stray quote swallows many lines instead
            at_end = lines.tell() == len(text) and reader.line_num - number <= max(20, reader.line_num // 2)
            if whole or not at_end:
                return None
    return records


def _by_quotes(tried: Sequence[_Fit], plain: Dialect) -> _Fit | None:
    """Choose between quoted fields and plain quotes for one delimiter."""
    if len(tried) < 2:
        return tried[0] if tried else None
    quoted, unquoted = sorted(tried, key=lambda fit: not fit.quotes)
    if quoted.share != unquoted.share:
        return max(tried, key=lambda fit: fit.share)
    if quoted.records == unquoted.records:
        # nothing is quoted: tabs are mostly written without quotes, other delimiters with them
        wanted = plain.quotes if quoted.delimiter == plain.delimiter else quoted.delimiter != "\t"
        return quoted if wanted else unquoted
    if quoted.width != unquoted.width:
        # delimiters or line breaks inside quoted fields
        return quoted if unquoted.escaped or quoted.delimiter != "\t" else unquoted
    if quoted.delimiter == "\t" or not plain.quotes:
        return quoted if unquoted.escaped else unquoted
    return quoted


def looks_escaped(records: Records) -> bool:
    """Whether fields, read without quotes, look as if a csv writer had quoted them.

    A writer quotes every field that contains a quote, and doubles the quotes inside. So no field may have a
    quote without being quoted, and either some inner quotes are doubled or whole columns are quoted. A text
    such as "Hello" alone proves nothing.
    """
    doubled = False
    fields = [field for record in records for field in record]
    holding = [field for field in fields if '"' in field]
    for field in holding:
        if len(field) < 2 or field[0] != '"' or field[-1] != '"':
            return False
        inner = field[1:-1]
        if '"' in inner.replace('""', ""):
            return False
        doubled = doubled or '""' in inner
    if doubled:
        return True
    width = len(records[0])
    columns = [[record[at] for record in records if len(record) == width] for at in range(width)]
    return len(records) > 1 and any(all(field[:1] == '"' for field in column) for column in columns)


_NUMBER = re.compile(r"\s*[-+]?(\d+([.,]\d+)?|[.,]\d+)([eE][-+]?\d+)?%?\s*")
_USUAL = re.compile(
    "id|idx|index|guid|texts?|sentence[12]?|premise|hypothesis|question[12]?|answer|context|passage|title|body|"
    "comment|review|content|message|document|labels?|class|category|target|sentiment|score|rating|gold|tags?|"
    "split|lang|language|date|author|name|stars"
)


def has_header(records: Records) -> bool:
    """Whether the first record names the columns.

    Names are short, distinct and no numbers. They count as names if one is a usual one, or if they differ
    from the values below: a name above numbers, a word above sentences, a word that does not recur among a
    few values.
    """
    if not records:
        return True
    names = [name.strip() for name in records[0]]
    rows = [record for record in records[1:1001] if len(record) == len(names)]
    # the first name may be empty: pandas writes its index without one
    if any(not name for name in names[1:]) or not any(names):
        return False
    if len(set(names)) < len(names) or any(len(name) > 60 or len(name.split()) > 5 for name in names):
        return False
    if any(_NUMBER.fullmatch(name) for name in names):
        return False
    votes = sum(_USUAL.fullmatch(name.strip('"').lower()) is not None for name in names)
    for at, name in enumerate(names):
        values = [value for row in rows if (value := row[at].strip())]
        votes += _vote(name, values)
    return votes > 0 or not rows


def _vote(name: str, values: Sequence[str]) -> int:
    """How much a column's values speak for (positive) or against its first cell being a name."""
    if not values:
        return 0
    if name in values:
        return -3
    if all(_NUMBER.fullmatch(value) for value in values):
        return 2
    if len(set(values)) <= len(values) / 2:
        return 1
    words = sum(len(value.split()) for value in values) / len(values)
    return 1 if words >= 4 and len(name.split()) <= 2 else 0


@contextmanager
def long_fields() -> Iterator[None]:
    """Allow fields longer than the csv module's limit of 131,072 characters."""
    before = csv.field_size_limit(2**31 - 1)
    try:
        yield
    finally:
        csv.field_size_limit(before)
