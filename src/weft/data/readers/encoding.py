"""Detect the encoding of a text file from its first bytes.

A byte order mark decides. Without one, bytes that decode as UTF-8 are UTF-8, and NUL bytes in every second
place are UTF-16. Other files are cp1252, which has latin-1's letters and the quotes and dashes of Windows; or
latin-1 if they have bytes that cp1252 does not define. The bytes of other alphabets could be any code page:
such a file needs its encoding named, because a wrong guess would replace every letter without an error.
"""

from __future__ import annotations

import codecs
import gzip
import zlib
from pathlib import Path
from typing import BinaryIO, cast

from weft.data.readers.problem import DataError, Problem

SAMPLE = 1 << 20
"""The number of bytes that detection reads."""

_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),  # before UTF-16, whose mark is its beginning
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_UNDEFINED = frozenset(b"\x81\x8d\x8f\x90\x9d")
"""The bytes without a character in cp1252."""
_WESTERN = 0.3
"""The largest share of bytes above 127 among the letters of a Western text; French has about 0.04."""


def open_binary(path: Path) -> BinaryIO:
    """Open a file for reading bytes; it is decompressed if its name ends in .gz."""
    if path.name.lower().endswith(".gz"):
        return cast(BinaryIO, gzip.open(path, "rb"))
    return path.open("rb")


def read_sample(path: Path, sample_bytes: int = SAMPLE) -> tuple[bytes, bool]:
    """Return the first bytes of a file, and whether the file ends with them.

    Raises:
        DataError: the file cannot be read.
    """
    try:
        with open_binary(path) as raw:
            data = raw.read(sample_bytes + 1)
    except (gzip.BadGzipFile, EOFError, zlib.error) as failed:
        message = f"the file is not complete gzip ({failed}); compress it again, or remove .gz from its name"
        raise DataError(Problem(str(path), message)) from failed
    except OSError as failed:
        message = f"the file cannot be read: {failed.strerror or failed}"
        raise DataError(Problem(str(path), message)) from failed
    return data[:sample_bytes], len(data) <= sample_bytes


def detect_encoding(path: Path, sample_bytes: int = SAMPLE) -> str:
    """Return Python's name of the file's encoding, such as "utf-8"; see `encoding_of`."""
    return encoding_of(path, *read_sample(path, sample_bytes))


def encoding_of(path: Path, data: bytes, whole: bool) -> str:
    r"""Return the encoding of a file from its first bytes.

    Args:
        path: the file, for messages.
        data: its first bytes.
        whole: whether these are all bytes; else the last character may be cut.

    Example:
        >>> encoding_of(Path("x.csv"), "Ein schöner Film".encode("latin-1"), True)
        'cp1252'
        >>> encoding_of(Path("x.csv"), "Ein schöner Film".encode()[:7], False)  # cut inside ö
        'utf-8'

    Raises:
        DataError: the encoding cannot be known from the bytes.
    """
    for mark, name in _MARKS:
        if data.startswith(mark):
            return name
    if (wide := _without_mark(data)) is not None:
        return wide
    valid, invalid = _utf8_counts(data, whole)
    # a UTF-8 file with a damaged byte stays UTF-8: any other encoding would garble all its valid characters
    if not invalid or valid > invalid:
        return "utf-8"
    high = [byte for byte in data if byte > 127]
    letters = len(high) + sum(65 <= byte <= 90 or 97 <= byte <= 122 for byte in data)
    # a few rows with many accents are still Western
    if len(high) > _WESTERN * letters and len(high) >= 20:
        message = (
            f"the file is not UTF-8, and {len(high)} of {letters} letters are outside ASCII, so it is no "
            "Western text either; name its encoding, for example: encoding: cp1251 (Cyrillic), gb18030 "
            "(Chinese), shift_jis (Japanese); or save it as UTF-8"
        )
        raise DataError(Problem(str(path), message))
    return "latin-1" if _UNDEFINED.intersection(high) else "cp1252"


def decode_sample(data: bytes, encoding: str, whole: bool) -> str:
    """Decode the first bytes of a file; a character cut by their end is left out, a damaged one replaced."""
    name = "utf-8-sig" if encoding == "utf-8" else encoding
    decoder = codecs.getincrementaldecoder(name)(errors="replace")
    return decoder.decode(data, final=whole)


def _without_mark(data: bytes) -> str | None:
    """Return the name of UTF-16 without a byte order mark: most characters have one byte NUL."""
    head = data[: 4096 // 2 * 2]
    if len(head) < 4:
        return None
    pairs = len(head) // 2
    even, odd = head[::2].count(0), head[1::2].count(0)
    if odd > 0.4 * pairs and even < 0.1 * pairs:
        return "utf-16-le"
    if even > 0.4 * pairs and odd < 0.1 * pairs:
        return "utf-16-be"
    return None


def _utf8_counts(data: bytes, whole: bool) -> tuple[int, int]:
    """Return how many characters of several bytes are valid UTF-8, and how many bytes are not."""
    decoder = codecs.getincrementaldecoder("utf-8")(errors="surrogateescape")
    text = decoder.decode(data, final=whole)
    if text.isascii():
        return 0, 0
    invalid = sum("\udc80" <= character <= "\udcff" for character in text)
    return sum(character > "\x7f" for character in text) - invalid, invalid
