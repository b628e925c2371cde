"""One writer at a time: an exclusive lock on a folder that is written, held by a file of its own.

The file exists while somebody writes, and the operating system's lock on it decides who does (`os_lock`). So
the lock of a killed process is free at once, on this machine and on others that mount the folder with locks.
On file systems without locks the file's content decides (`record_lock`). Readers need no lock.

Two threads of one process are two writers. Within one thread a lock can be taken again: `weft.train` holds
that of the run's folder while it calls functions that take it too.
"""

from __future__ import annotations

import contextlib
import errno
import os
import random
import stat
import threading
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from weft.errors import WeftError, words
from weft.utils.lock_holder import LONGEST, Holder
from weft.utils.notes import print_note
from weft.utils.os_lock import LocksUnsupportedError, same_file, try_lock
from weft.utils.record_lock import RecordLock
from weft.utils.write_errors import explained

LOCK = ".weft-lock"
"""The end of the name of a lock's file; the whole name if the file is in the folder that it locks."""

WAIT = 600.0
"""How many seconds a writer waits for others by default; WEFT_LOCK_TIMEOUT sets a different number."""

FIRST_NOTE, NEXT_NOTE = 1.0, 60.0
"""After how many seconds of waiting the user is told whom for, the first time and the next times."""

_FLAGS = os.O_CREAT | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NONBLOCK", 0)
_NOFOLLOW = getattr(os, "O_NOFOLLOW", 0)


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
        while True:
            descriptor = self._open(self.path)
            try:
                if not try_lock(descriptor):
                    os.close(descriptor)
                    return False
            except LocksUnsupportedError:
                os.close(descriptor)
                with contextlib.suppress(OSError):
                    self.path.unlink()
                return self._record.attempt()
            except BaseException:
                os.close(descriptor)
                raise
            # its last holder may have deleted the file after it was opened here: then it locks nothing
            if same_file(descriptor, self.path):
                self._take(descriptor)
                return True
            os.close(descriptor)

    def holder(self) -> Holder | None:
        """Who has the lock; None if that is not known."""
        try:
            descriptor = os.open(self.path, os.O_RDONLY | _NOFOLLOW | _FLAGS & ~os.O_CREAT)
        except OSError:
            return self._record.holder()
        try:
            text = os.read(descriptor, LONGEST).decode("utf-8", "replace")
        except OSError:
            text = ""
        finally:
            os.close(descriptor)
        return Holder.parse(text) or self._record.holder()

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
        descriptor = self._open(path)
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
        if (
            os.name == "nt" and descriptors
        ):  # pragma: no cover  (an open file cannot be deleted there, nor one that others use)
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

    def _open(self, path: Path) -> int:
        """Open the lock's file, which is created if it does not exist; a link is not followed."""
        descriptor = -1
        while descriptor < 0:
            try:
                descriptor = os.open(path, os.O_RDWR | _NOFOLLOW | _FLAGS, 0o666)
            except FileNotFoundError:
                path.parent.mkdir(parents=True, exist_ok=True)  # removed by a writer that had created it
            except PermissionError:
                if not _removed(path):
                    raise
            except OSError as wrong:
                if wrong.errno in (errno.ELOOP, errno.EISDIR, errno.ENXIO):
                    raise _not_a_lock(path) from None
                raise
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise _not_a_lock(path)
        return descriptor


def _removed(path: Path) -> bool:
    """Remove the lock of a killed process of a different user; False if it cannot be removed, or is held."""
    try:
        descriptor = os.open(path, os.O_RDONLY | _NOFOLLOW | _FLAGS & ~os.O_CREAT)
    except OSError:
        return False
    try:
        if try_lock(descriptor) and same_file(descriptor, path):
            path.unlink()
            return True
    except (OSError, LocksUnsupportedError):
        pass
    finally:
        os.close(descriptor)
    return False


def _not_a_lock(path: Path) -> WeftError:
    return WeftError(f"{path} is not a file; weft keeps a lock of this name while it writes: remove it")


class _HeldHere(threading.local):
    """The locks that this thread holds, by the path of their files."""

    def __init__(self) -> None:
        self.locks: dict[str, Lock] = {}


_held = _HeldHere()
_all: weakref.WeakSet[Lock] = weakref.WeakSet()


def _after_fork() -> None:
    # the copies of the open files would keep the lock after the parent's death
    for lock in list(_all):
        lock.forget()
    _held.locks.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


@contextmanager
def locked(
    path: Path,
    what: str | Path,
    *,
    doing: str,
    file: Path | None = None,
    advice: str = "",
    wait: float | None = None,
) -> Iterator[Lock]:
    """Inside, this thread holds the lock of a file, and nobody else does.

    Args:
        path: the lock's file; its folder is created, and removed again if nothing was written to it.
        what: what is written, for messages.
        file: a file or folder that is written, for the message if it cannot be; None: `path`.
        doing: what this process does, for messages of others, such as `weft train`.
        advice: what to do if somebody else has the lock.
        wait: for how many seconds to wait for others; None: `WAIT`, or what WEFT_LOCK_TIMEOUT says.

    Raises:
        LockHeld: somebody else has the lock, and had it for the whole time.
    """
    path = Path(os.path.realpath(path.parent)) / path.name
    if str(path) in _held.locks:
        yield _held.locks[str(path)]
        return
    lock = Lock(path, doing)
    created = [folder for folder in (path.parent, *path.parent.parents) if not folder.exists()]
    _all.add(lock)
    try:
        with explained(file or path):
            path.parent.mkdir(parents=True, exist_ok=True)
            _acquire(lock, what, advice, timeout() if wait is None else wait)
        _held.locks[str(path)] = lock
        yield lock
    finally:
        _held.locks.pop(str(path), None)
        lock.release()
        with contextlib.suppress(OSError):  # the first that is not empty
            for folder in created:
                folder.rmdir()


def held(path: Path) -> Lock | None:
    """The lock of a file, if this thread holds it."""
    return _held.locks.get(str(Path(os.path.realpath(path.parent)) / path.name))


def beside(folder: str | Path) -> Path:
    """The lock's file of a folder that is replaced as a whole: the file is beside it, not in it."""
    real = Path(os.path.realpath(folder))
    return real.with_name(f".{short(real.name)}{LOCK}")


def short(name: str) -> str:
    """A name that can be lengthened and is still allowed as a file's: 255 bytes are."""
    encoded = os.fsencode(name)
    return name if len(encoded) <= 180 else os.fsdecode(encoded[:180])


def timeout() -> float:
    """For how many seconds a writer waits for others."""
    value = os.environ.get("WEFT_LOCK_TIMEOUT")
    try:
        seconds = WAIT if value is None else float(value)
    except ValueError:
        seconds = -1.0
    if not seconds >= 0:
        raise WeftError(f"WEFT_LOCK_TIMEOUT is {value!r}; expected a number of seconds, such as 600")
    return seconds


def _acquire(lock: Lock, what: str | Path, advice: str, wait: float) -> None:
    began, note_at, pause = time.monotonic(), FIRST_NOTE, 0.01
    while not lock.attempt():
        waited = time.monotonic() - began
        if waited >= wait:
            raise LockHeld(_message(lock, what, advice, wait))
        if waited >= note_at:
            print_note(f"waiting for {_name(lock.holder())}, which writes to {what}")
            note_at = waited + NEXT_NOTE
        # of different lengths: writers that wait together must not always meet
        time.sleep(min(pause * random.uniform(0.5, 1.5), max(wait - waited, 0.001)))
        pause = min(pause * 1.5, 0.5)


def _message(lock: Lock, what: str | Path, advice: str, wait: float) -> str:
    holder = lock.holder()
    if wait:
        text = f"{_name(holder)} is still writing to {what}, after {wait:g} seconds of waiting"
        lines = [advice or "try again when it has ended; WEFT_LOCK_TIMEOUT=SECONDS waits longer"]
    else:
        text = f"{_name(holder)} is writing to {what}"
        lines = [advice or "try again when it has ended"]
    if lock.by_record and (holder is None or not holder.here):
        lines.append(f"if it no longer runs, delete {lock.record_path}")
    return "\n  ".join([text, *lines])


def _name(holder: Holder | None) -> str:
    if holder is None:
        return "another process"
    if holder.here and holder.process == os.getpid():
        return f"a different thread of this process ({holder})"
    return str(holder)


def different_out() -> str:
    """What to do if somebody else writes to the folder of a call."""
    return f"wait until it has ended, stop it, or set a different {words('--out', 'out')}"
