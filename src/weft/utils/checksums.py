"""Checksums of files: they notice bytes that changed on a disk or on the way.

Bundles and checkpoints record the sha256 of every file, and a sha256 of the record itself. Entries of the
token cache record a CRC-32 of every file, which takes less than half of the time and notices every flipped
bit. A checksum is no signature: whoever can change a file on purpose can change its checksum too.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

SEAL = "sha256"
"""The key of a record's own checksum."""

_BLOCK = 1 << 20


def file_sha256(path: Path) -> str:
    """Return the sha256 of a file's bytes, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def start_sha256(path: Path, size: int) -> str | None:
    """Return the sha256 of the first bytes of a file; None if it has fewer, or is missing.

    Args:
        path: the file.
        size: the number of bytes.
    """
    digest = hashlib.sha256()
    try:
        with path.open("rb") as file:
            while size and (block := file.read(min(size, _BLOCK))):
                digest.update(block)
                size -= len(block)
    except FileNotFoundError:
        return None
    return None if size else digest.hexdigest()


def file_crc32(path: Path) -> str:
    """Return the CRC-32 of a file's bytes, as eight hexadecimal digits."""
    checksum = 0
    with path.open("rb", buffering=0) as file:
        block = memoryview(bytearray(_BLOCK))
        while size := file.readinto(block):
            checksum = zlib.crc32(block[:size], checksum)
    return f"{checksum:08x}"


def file_problem(path: Path, expected: object, actual: str | None = None) -> str | None:
    """Return what is wrong with a file, or None if its sha256 is the expected one.

    Args:
        path: the file.
        expected: its sha256, in hexadecimal; a value of a damaged record may be anything.
        actual: the sha256 that was computed just now; None: the file is read.
    """
    try:
        actual = actual or file_sha256(path)
    except FileNotFoundError:
        return f"{path} is missing"
    except OSError as wrong:
        return f"{path} cannot be read: {wrong.strerror or wrong}"
    if actual == expected:
        return None
    return (
        f"{path} is damaged or was replaced: its sha256 is not the recorded one\n"
        f"  sha256 found    {actual}\n  sha256 expected {expected}"
    )


def sealed(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return a JSON record with its own sha256 under the key `sha256`.

    Example:
        >>> record = sealed({"step": 3})
        >>> is_sealed(record), is_sealed({**record, "step": 4})
        (True, False)
    """
    contents = {key: value for key, value in record.items() if key != SEAL}
    return {**contents, SEAL: _record_sha256(contents)}


def is_sealed(record: Mapping[str, Any]) -> bool:
    """Return whether a record has its own sha256, and the right one.

    Its values count, not its spelling: a file that was indented again still has its sha256.
    """
    return SEAL in record and record[SEAL] == sealed(record)[SEAL]


def _record_sha256(contents: Mapping[str, Any]) -> str:
    # through JSON once: tuples become lists and numbers as keys strings, as in the file
    plain = json.loads(json.dumps(contents))
    return hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()
