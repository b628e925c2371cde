"""Reading a bundle while another process replaces it.

A writer replaces the whole folder in one step, so the folder is always an old bundle or a new one. A reader
that reads several files may still see some of each. It would report damage that is none, or mix two models.
So it holds the folder open, and compares at the end: if the path leads to a different folder, it reads again.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import TypeVar

from weft.bundle.writing import wait_for_writer
from weft.errors import WeftError

T = TypeVar("T")

ATTEMPTS = 20
"""How often a bundle is read at most."""


class Replaced(WeftError):
    """A bundle was replaced while it was read."""

    def __init__(self, folder: Path) -> None:
        super().__init__(f"{folder} was replaced by another process while it was read; try again")


class Hold:
    """Knows whether a folder has been replaced since the hold began.

    The folder stays open meanwhile: a new folder can then not get the number (inode) of the old one.

    Args:
        folder: the folder; it exists.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._handle: int | None = None
        with suppress(OSError):  # on Windows a folder cannot be opened
            self._handle = os.open(folder, os.O_RDONLY)
        self._held = _identity(folder) if self._handle is None else _identity(self._handle)

    def __enter__(self) -> Hold:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the hold. If the folder was replaced, an error becomes `Replaced`: a mixture was read."""
        try:
            if isinstance(error, Exception):
                self.check()
        finally:
            if self._handle is not None:
                os.close(self._handle)

    def check(self) -> None:
        """Raise `Replaced` if the path leads to a different folder by now."""
        if _identity(self.folder) != self._held:
            raise Replaced(self.folder) from None


def consistently(folder: Path, read: Callable[[], T]) -> T:
    """Return what `read` returns, from one and the same state of a folder.

    Args:
        folder: the bundle.
        read: reads it; called again if the folder was replaced meanwhile.
    """
    for _ in range(ATTEMPTS - 1):
        with suppress(Replaced):
            return _read(folder, read)
    return _read(folder, read)


def _read(folder: Path, read: Callable[[], T]) -> T:
    wait_for_writer(folder)
    with Hold(folder) as hold:
        result = read()
        hold.check()
        return result


def _identity(folder: Path | int) -> tuple[int, int] | None:
    try:
        status = os.stat(folder)
    except OSError:
        return None
    return status.st_dev, status.st_ino
