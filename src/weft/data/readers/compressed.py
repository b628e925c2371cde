"""Reads compressed text, and refuses small files that decompress to very large ones.

gzip shrinks a text to a third or a tenth, and repeated bytes to a thousandth: a file of one megabyte may hold
a gigabyte of newlines, which takes minutes and gigabytes of memory to read.
"""

from __future__ import annotations

import gzip
import os
import sys
from pathlib import Path

from weft.data.readers.problem import DataError, Problem

BLOCK = 2**20
"""How many bytes are decompressed at once."""
RATIO = 100
"""How many times larger than what was read of the file its text may be; real texts have at most about 30."""
SMALL = 16 * 2**20
"""The number of bytes that any file may decompress to."""


class BoundedGzip(gzip.GzipFile):
    """A gzip file for reading; reading more than a text can be raises a `DataError`.

    Args:
        path: the file.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(path, "rb")
        self._path = path
        self._total = 0
        self._check_at = SMALL

    def read(self, size: int | None = -1) -> bytes:
        """Read up to `size` bytes; all of them if it is negative or None."""
        if size is not None and 0 <= size <= BLOCK:
            return self._counted(super().read(size))
        blocks: list[bytes] = []  # not at once: the whole may be too large
        left = sys.maxsize if size is None or size < 0 else size
        while left and (block := self._counted(super().read(min(left, BLOCK)))):
            blocks.append(block)
            left -= len(block)
        return b"".join(blocks)

    def read1(self, size: int = -1) -> bytes:
        """Read up to `size` bytes with at most one read of the file."""
        return self._counted(super().read1(size))

    def _counted(self, data: bytes) -> bytes:
        self._total += len(data)
        if self._total > self._check_at:
            compressed = os.lseek(self.fileno(), 0, os.SEEK_CUR)  # a little more than was decompressed
            if self._total > RATIO * compressed:
                message = (
                    f"its first {compressed:,} bytes decompress to more than {self._total:,}, so the text "
                    "repeats itself almost everywhere; if that is right, decompress it first: gunzip "
                    f"{self._path.name}"
                )
                raise DataError(Problem(str(self._path), message))
            self._check_at = self._total + BLOCK
        return data
