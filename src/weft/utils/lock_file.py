"""The file that a lock is: created, locked, filled with a record of its writer, deleted at the end."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from pathlib import Path

from weft.errors import WeftError
from weft.utils.lock_holder import LONGEST, Holder
from weft.utils.os_lock import LocksUnsupportedError, same_file, try_lock
from weft.utils.record_lock import RecordLock

_FLAGS = os.O_CREAT | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NONBLOCK", 0)
_NOFOLLOW = getattr(os, "O_NOFOLLOW", 0)


MOVES = 1000
"""How often the file may be deleted between opening and locking it, before the file system is not trusted."""


class LockHeld(WeftError):
    """A different process, or a different thread, writes to the same folder."""


class Lock:
    """The lock that a file stands for.

    Args:
        path: the file; its folder exists.
        doing: what the holder does, for messages of others, such as `weft train`.
    """

    def __init__(self, path: Path, doing: str) -> None:
        self.path, self.doing = path, doing
        self._descriptors: list[int] = []
        self._record = RecordLock(path.with_name(f"{path.name}.held"), doing)
        self._process = os.getpid()

    def attempt(self) -> bool:
        """Take the lock, unless somebody else has it."""
        try:
            return self._attempt()
        except LocksUnsupportedError:
            # a host that mounts the same folder with locks may hold this file
            holder = self._read()
            if holder is not None and not holder.gone():
                return False
            with contextlib.suppress(OSError):
                self.path.unlink()
            return self._record.attempt()

    def _attempt(self) -> bool:
        for _ in range(MOVES):
            descriptor, writable = self._open(self.path)
            try:
                if not try_lock(descriptor):
                    return False
                # its last holder may have deleted the file after it was opened here: then it locks nothing
                if not same_file(descriptor, self.path):
                    continue
                if not writable:  # left by a process of a different user: replaced by a file of this one
                    self.path.unlink()
                elif self._record.is_held():  # by a host that mounts the same folder without locks
                    return False
                else:
                    self._take(descriptor)
                    return True
            except LocksUnsupportedError:
                if not writable:  # not known: some file systems lock only what can be written
                    raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(self.path)) from None
                raise
            finally:
                if descriptor not in self._descriptors:
                    os.close(descriptor)
        raise LocksUnsupportedError("a path and its open file are never the same file here")

    def holder(self) -> Holder | None:
        """Who has the lock; None if that is not known."""
        return self._read() or self._record.holder()

    def _read(self) -> Holder | None:
        try:
            descriptor = os.open(self.path, os.O_RDONLY | _NOFOLLOW | _FLAGS & ~os.O_CREAT)
        except OSError:
            return None
        try:
            return Holder.parse(os.read(descriptor, LONGEST).decode("utf-8", "replace"))
        except OSError:
            return None
        finally:
            os.close(descriptor)

    @property
    def record_path(self) -> Path:
        """The file that decides on file systems without locks."""
        return self._record.path

    @property
    def by_record(self) -> bool:
        """Whether that file exists."""
        return self._record.path.exists()

    def lost(self) -> bool:
        """Whether the lock's file was deleted or replaced while the lock was held."""
        if self._record.held:
            return self._record.lost()
        return not any(same_file(descriptor, self.path) for descriptor in self._descriptors)

    def follow(self, folder: Path) -> None:
        """Also lock a folder that is about to replace the one that the lock's file is in."""
        if self._record.held:
            (folder / self._record.path.name).write_text(self._record.text, encoding="utf-8")
            return
        path = folder / self.path.name
        descriptor, _ = self._open(path)
        try:
            locked = try_lock(descriptor)
        except BaseException:
            os.close(descriptor)
            raise
        if not locked:
            os.close(descriptor)
            raise LockHeld(f"{path} is locked; it was created just now")
        self._take(descriptor)

    def release(self) -> None:
        """Give the lock back and delete its file."""
        descriptors, self._descriptors = self._descriptors, []
        if self._process != os.getpid():  # a fork of the holder: the lock is the parent's
            return
        self._record.release()
        # deleted while it is locked: nobody can have locked it in between
        if os.name != "nt" and any(same_file(descriptor, self.path) for descriptor in descriptors):
            with contextlib.suppress(OSError):
                self.path.unlink()
        for descriptor in descriptors:
            os.close(descriptor)
        # on Windows an open file cannot be deleted, nor one that others have opened
        if os.name == "nt" and descriptors:  # pragma: no cover
            with contextlib.suppress(OSError):
                self.path.unlink()

    def forget(self) -> None:
        """Close the files without giving the lock back: in a fork, where they are copies of the parent's."""
        for descriptor in self._descriptors:
            with contextlib.suppress(OSError):
                os.close(descriptor)
        self._descriptors = []

    def _take(self, descriptor: int) -> None:
        self._descriptors.append(descriptor)
        # for messages alone: a full disk must not prevent the writing that may free it
        with contextlib.suppress(OSError):
            os.ftruncate(descriptor, 0)
            os.lseek(descriptor, 0, os.SEEK_SET)
            os.write(descriptor, Holder.current(self.doing, self.path).text().encode())

    def _open(self, path: Path) -> tuple[int, bool]:
        """Open the lock's file, which is created if it does not exist; a link is not followed.

        Returns:
            The open file, and whether it can be written: that of a different user may only be readable.
        """
        descriptor, writable, attempts = -1, True, 0
        while descriptor < 0:
            attempts += 1
            try:
                descriptor = os.open(path, os.O_RDWR | _NOFOLLOW | _FLAGS, 0o666)
            except FileNotFoundError:
                if attempts > MOVES:  # the folder is there, and takes no file, as those of /proc
                    raise
                path.parent.mkdir(parents=True, exist_ok=True)  # removed by a writer that had created it
            except PermissionError as refused:
                try:
                    descriptor = os.open(path, os.O_RDONLY | _NOFOLLOW | _FLAGS & ~os.O_CREAT)
                    writable = False
                except OSError:
                    refuses = os.path.lexists(path) or not os.access(path.parent, os.W_OK)
                    if refuses or attempts > MOVES:
                        raise refused from None
            except OSError as wrong:
                if wrong.errno in (errno.ELOOP, errno.EISDIR, errno.ENXIO):
                    raise _not_a_lock(path) from None
                raise
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise _not_a_lock(path)
        return descriptor, writable


def _not_a_lock(path: Path) -> WeftError:
    return WeftError(f"{path} is not a file; weft keeps a lock of this name while it writes: remove it")
