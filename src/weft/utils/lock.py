"""One writer at a time: an exclusive lock on a folder that is written, held by a file of its own.

The file exists while somebody writes, and the operating system's lock on it decides who does (`os_lock`). So
the lock of a killed process is free at once, on this machine and on others that mount the folder with locks.
On file systems without locks the file's content decides (`record_lock`). Readers need no lock.

Two threads of one process are two writers. Within one thread a lock can be taken again: `weft.train` holds
that of the run's folder while it calls functions that take it too.
"""

from __future__ import annotations

import contextlib
import os
import random
import threading
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from weft.errors import WeftError, words
from weft.utils.lock_file import Lock, LockHeld
from weft.utils.lock_holder import Holder
from weft.utils.notes import print_note
from weft.utils.write_errors import explained

LOCK = ".weft-lock"
"""The end of the name of a lock's file; the whole name if the file is in the folder that it locks."""

WAIT = 600.0
"""How many seconds a writer waits for others by default; WEFT_LOCK_TIMEOUT sets a different number."""

MOMENT = 0.2
"""For how many seconds every writer waits: whoever looks for leftovers has their locks for a moment."""

FIRST_NOTE, NEXT_NOTE = 1.0, 60.0
"""After how many seconds of waiting the user is told whom for, the first time and the next times."""


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
        if waited >= max(wait, MOMENT):
            raise LockHeld(_message(lock, what, advice, wait))
        if waited >= note_at:
            print_note(f"waiting for {_name(lock.holder())}, which writes to {what}")
            note_at = waited + NEXT_NOTE
        # of different lengths: writers that wait together must not always meet
        time.sleep(min(pause * random.uniform(0.5, 1.5), max(wait - waited, 0.01)))
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
