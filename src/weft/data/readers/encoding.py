"""Detect the encoding of a text file from its first bytes.

A byte order mark decides. Without one, bytes that decode as UTF-8 are UTF-8, and NUL bytes in every second
place are UTF-16. Other files are cp1252, which has latin-1's letters and the quotes and dashes of Windows; or
latin-1 if they have bytes that cp1252 does not define. The bytes of other alphabets could be any code page:
such a file needs its encoding named, because a wrong guess would replace every letter without an error.
"""

from __future__ import annotations

import codecs
import gzip
import re
import zlib
from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import BinaryIO, cast

import numpy as np
from numpy.typing import NDArray

from weft.data.readers.compressed import BoundedGzip
from weft.data.readers.problem import DataError, Problem
from weft.errors import WeftError

Counts = NDArray[np.int64]
SAMPLE = 1 << 20
"""The number of bytes that detection reads."""

_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),  # before UTF-16, whose mark is its beginning
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_OTHER_FORMATS = {
    b"\x1f\x8b": "it looks like gzip: rename it to end in .gz",
    b"PAR1": "it looks like parquet: rename it to end in .parquet",
    b"PK\x03\x04": "it looks like a zip or Excel file: save it as csv, UTF-8",
}
"""The first bytes that identify a file of another format with a wrong name."""
_ESCAPED, _OUTSIDE = re.compile("[\udc80-\udcff]"), re.compile("[^\x00-\x7f]")
_UNDEFINED = frozenset(b"\x81\x8d\x8f\x90\x9d")
"""The bytes without a character in cp1252."""
_WESTERN = 0.3
"""The largest share of bytes above 127 among the letters of a Western text; French has about 0.04."""


def open_binary(path: Path) -> BinaryIO:
    """Open a file for reading bytes; it is decompressed if its name ends in .gz."""
    if path.name.lower().endswith(".gz"):
        return cast(BinaryIO, BoundedGzip(path))
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


NOT_OF_FILES = ("idna", "punycode", "raw-unicode-escape", "undefined", "unicode-escape")
"""Python's encodings of names of hosts and of Python's own source, in which no file is written."""


def check_encoding(name: object) -> str:
    """Return Python's name of an encoding; refuse one that Python does not know, or that no file has."""
    try:
        if isinstance(name, str):
            codec = codecs.lookup(name)
            # others turn bytes into bytes (base64) or texts into texts (rot13)
            if getattr(codec, "_is_text_encoding", True) and codec.name not in NOT_OF_FILES:
                return codec.name
    except (LookupError, ValueError):
        pass
    raise WeftError(f"encoding: expected a name such as utf-8, cp1252, latin-1 or utf-16; found {name!r}")


def file_encoding(path: Path, *, guess: bool = True) -> str:
    """Return the encoding of a file, from all its bytes, which are read in blocks.

    Args:
        path: the file.
        guess: whether a file that is not Unicode may be cp1252 or latin-1; else it counts as damaged UTF-8.
    """
    if not path.is_file():
        return "utf-8"  # a pipe can be read only once
    data, whole = read_sample(path)
    for name in (_marked(data), _without_mark(data)):
        if name is not None:
            return name
    if not guess:
        return "utf-8"
    if whole:
        return encoding_of(path, data, True)
    status = path.stat()
    return _scanned(path, status.st_size, status.st_mtime_ns, data[:4])


def encoding_notes(path: Path, configured: str | None, *, guess: bool = False) -> tuple[str, ...]:
    """Return what `weft check` reports about the encoding: a detected one that is not UTF-8.

    Args:
        path: the file.
        configured: the configured encoding.
        guess: as in `file_encoding`.
    """
    encoding = "utf-8" if configured is not None else file_encoding(path, guess=guess)
    if encoding.startswith("utf-8"):
        return ()
    return (f"detected encoding: {encoding}; if this is wrong, set this key beside the file",)


@lru_cache(maxsize=256)
def _scanned(path: Path, size: int, changed: int, start: bytes) -> str:
    """Scan a whole file once; its size and time are part of the cache's key."""
    with open_binary(path) as raw:
        return _decided(path, start, *_counted(iter(lambda: raw.read(SAMPLE), b""), True))


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
    name = _marked(data) or _without_mark(data)
    return name or _decided(path, data[:4], *_counted([data], whole))


def other_format(start: bytes) -> str | None:
    """Return the format that a file's first bytes identify, and what to do; None for text."""
    return next((words for mark, words in _OTHER_FORMATS.items() if start.startswith(mark)), None)


def _decided(path: Path, start: bytes, valid: int, invalid: int, bytes_of: Counts) -> str:
    """Decide by how many characters of several bytes are UTF-8, how many bytes are not, and all counts."""
    # a UTF-8 file with a damaged byte stays UTF-8: any other encoding would garble all its valid characters
    if not invalid or valid > invalid:
        return "utf-8"
    if words := other_format(start):
        byte = next(byte for byte in range(128, 256) if bytes_of[byte])
        raise DataError(
            Problem(str(path), f"found the byte 0x{byte:02x}; expected text; {words}", 1, unit="line")
        )
    high = int(bytes_of[128:].sum())
    letters = high + int(bytes_of[65:91].sum() + bytes_of[97:123].sum())
    # a few rows with many accents are still Western
    if high > _WESTERN * letters and high >= 20:
        message = (
            f"the file is not UTF-8, and {high} of {letters} letters are outside ASCII, so it is no "
            "Western text either; save it as UTF-8, for example: iconv -f cp1251 -t utf-8 FILE > NEW; or, in "
            "a run file, name its encoding: encoding: cp1251 (Cyrillic), gb18030 (Chinese), shift_jis "
            "(Japanese)"
        )
        raise DataError(Problem(str(path), message))
    return "latin-1" if any(bytes_of[byte] for byte in _UNDEFINED) else "cp1252"


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


def _marked(data: bytes) -> str | None:
    """Return the encoding of a byte order mark."""
    return next((name for mark, name in _MARKS if data.startswith(mark)), None)


def _counted(blocks: Iterable[bytes], whole: bool) -> tuple[int, int, Counts]:
    """Count valid characters of several bytes, bytes that are not UTF-8, and each byte, [256]."""
    decoder = codecs.getincrementaldecoder("utf-8")(errors="surrogateescape")
    valid = invalid = 0
    bytes_of = np.zeros(256, np.int64)
    for block, last in _with_last(blocks):
        if block.isascii() and not decoder.getstate()[0]:
            bytes_of += np.bincount(np.frombuffer(block, np.uint8), minlength=256)
            continue
        text = decoder.decode(block, final=last and whole)
        bytes_of += np.bincount(np.frombuffer(block, np.uint8), minlength=256)
        escaped = len(_ESCAPED.findall(text))
        invalid += escaped
        valid += len(_OUTSIDE.findall(text)) - escaped
    return valid, invalid, bytes_of


def _with_last(blocks: Iterable[bytes]) -> Iterator[tuple[bytes, bool]]:
    """Yield each block and whether it is the last."""
    before: bytes | None = None
    for block in blocks:
        if before is not None:
            yield before, False
        before = block
    if before is not None:
        yield before, True
