"""The lock for file systems without locks: a file with a record of its writer, created in one step.

The record of a process of this machine that has ended is removed (`Holder.gone`). Whether a process of
another machine still runs cannot be known; its record stays until somebody deletes it.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from weft.utils.lock_holder import LONGEST, Holder
from weft.utils.os_lock import LocksUnsupportedError, same_file, try_lock


class RecordLock:
    """The lock that a record stands for.

    Args:
        path: the file of the record.
        doing: what the holder does.
    """

    def __init__(self, path: Path, doing: str) -> None:
        self.path, self.doing = path, doing
        self.text = ""
        self.held = False

    def attempt(self) -> bool:
        """Take the lock, unless somebody else has it who may still run."""
        self.text = Holder.current(self.doing, self.path).text()
        self.held = self._created() or (self._removed_stale() and self._created())
        return self.held

    def holder(self) -> Holder | None:
        """Who has the lock; None if nobody has."""
        return Holder.parse(self._read())

    def is_held(self) -> bool:
        """Whether somebody has the lock who may still run."""
        holder = self.holder() if self.path.exists() else None
        return holder is not None and not holder.gone() and not self._copied(holder)

    def lost(self) -> bool:
        """Whether the record was deleted or replaced while the lock was held."""
        return self._read() != self.text

    def release(self) -> None:
        """Delete the record."""
        if self.held and not self.lost():
            with contextlib.suppress(OSError):
                self.path.unlink()
        self.held = False

    def _created(self) -> bool:
        """Create the file with its content in one step, as a second name of a file that is complete."""
        work = self.path.with_name(f"{self.path.name}.weft-{secrets.token_hex(8)}")
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0)
        descriptor = os.open(work, flags, 0o666)
        try:
            os.write(descriptor, self.text.encode())
        finally:
            os.close(descriptor)
        try:
            os.link(work, self.path)
        except FileExistsError:
            return False
        except OSError:  # no second names here either: created empty in one step, then filled
            return self._created_empty()
        finally:
            with contextlib.suppress(OSError):
                work.unlink()
        return True

    def _created_empty(self) -> bool:
        try:
            descriptor = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
        except FileExistsError:
            return False
        try:
            os.write(descriptor, self.text.encode())
        finally:
            os.close(descriptor)
        return True

    def _removed_stale(self) -> bool:
        """Remove the record of a process of this machine that has ended.

        Such records are only removed by processes of the same machine, one at a time: two that both find the
        record of a killed process must not remove that which the first of them has created instead.
        """
        with _alone(self.path):
            holder = self.holder()
            if holder is None or not (holder.gone() or self._copied(holder)):
                return False
            with contextlib.suppress(FileNotFoundError):
                self.path.unlink()
            return True

    def _copied(self, holder: Holder) -> bool:
        """Whether the record came here with a copy of the folder."""
        if not holder.here or holder.place is None or holder.place == str(self.path):
            return False
        return not os.path.exists(holder.place) or not os.path.samefile(holder.place, self.path)

    def _read(self) -> str:
        try:
            with self.path.open("rb") as file:
                return file.read(LONGEST).decode("utf-8", "replace")
        except OSError:
            return ""


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Inside, no other process of this machine and user is inside for the same path."""
    user = str(os.getuid()) if hasattr(os, "getuid") else "user"
    key = hashlib.sha256(os.fsencode(path)).hexdigest()[:16]
    file = Path(tempfile.gettempdir()) / f".weft-{user}-{key}"
    flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)
    descriptor = os.open(file, flags, 0o600)
    try:
        while not (_locked(descriptor) and same_file(descriptor, file)):
            time.sleep(0.005)
            os.close(descriptor)
            descriptor = os.open(file, flags, 0o600)
        yield
    finally:
        with contextlib.suppress(OSError):
            file.unlink()
        os.close(descriptor)


def _locked(descriptor: int) -> bool:
    try:
        return try_lock(descriptor)
    except LocksUnsupportedError:  # the folder of temporary files has none either
        return True
