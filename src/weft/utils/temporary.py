"""Temporary files and folders beside what they become, and the removal of those that killed processes left.

The names cannot be guessed, an existing file or link of such a name is never opened, and each one is locked
as long as its writer lives (`os_lock`). So one that is not locked is left over, and whoever writes the same
target next removes it.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from weft.utils.lock import LOCK, short
from weft.utils.os_lock import LocksUnsupportedError, same_file, try_lock

MARK = ".weft-"
OLD = "-old"
"""The end of the name of a folder that is being replaced, where folders cannot be exchanged in one step."""
ABANDONED = 24 * 3600.0
"""On file systems without locks, what has not changed for so many seconds is left over."""

_NAME = re.compile(r"\.(?P<target>.+)\.weft-[0-9a-f]{16}(-old)?", re.DOTALL)
_LOCK_NAME = re.compile(r"(\.(?P<target>.+?)(\.task-[^.]*)?)?" + re.escape(LOCK), re.DOTALL)
_READ = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)


class Temporary:
    """A new file or folder beside `target`, with a random name; see `create_file` and `create_folder`.

    Attributes:
        path: its path.
        descriptor: the open file or folder; None where folders cannot be opened.
    """

    def __init__(self, path: Path, descriptor: int | None) -> None:
        self.path, self.descriptor = path, descriptor

    def close(self) -> None:
        """Close it: from now on others may remove it, if it still has its temporary name."""
        if self.descriptor is not None:
            os.close(self.descriptor)
            self.descriptor = None

    def remove(self) -> None:
        """Close and delete it, if it still has its temporary name; never what has been moved elsewhere."""
        if self.path.is_dir() and not self.path.is_symlink():
            shutil.rmtree(self.path, ignore_errors=True)
        else:
            with contextlib.suppress(OSError):
                self.path.unlink()
        self.close()


def create_file(target: Path) -> Temporary:
    """Create an empty temporary file beside `target`, with the mode that the umask asks for."""
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
    sweep_leftovers(target.parent, target.name)
    while True:
        path = _path(target)
        try:
            descriptor = os.open(path, flags, 0o666)
        except FileExistsError:
            continue
        if _locked(descriptor, path):
            return Temporary(path, descriptor)


def create_folder(target: Path) -> Temporary:
    """Create an empty temporary folder beside `target`, which only its owner can open."""
    sweep_leftovers(target.parent, target.name)
    while True:
        path = _path(target)
        try:
            path.mkdir(0o700)
        except FileExistsError:
            continue
        try:
            descriptor = os.open(path, _READ)
        except OSError:
            if os.name == "nt":
                return Temporary(path, None)
            if not path.exists():  # removed by somebody who found it before it was locked
                continue
            raise
        if _locked(descriptor, path):
            return Temporary(path, descriptor)


@contextmanager
def temporary_folder(target: Path) -> Iterator[Path]:
    """Inside, there is an empty folder beside `target`, which is removed at the end if it is still there."""
    folder = create_folder(target)
    try:
        yield folder.path
    finally:
        folder.remove()


@contextmanager
def scratch_folder(name: str) -> Iterator[Path]:
    """Inside, there is an empty folder among the system's temporary files; the next call removes leftovers.

    Args:
        name: what it is for, which is part of its name.
    """
    with temporary_folder(Path(tempfile.gettempdir()) / name) as folder:
        yield folder


def is_leftover_name(name: str) -> bool:
    """Whether a file or folder of this name is a temporary one or a lock of weft."""
    return _NAME.fullmatch(name) is not None or _LOCK_NAME.fullmatch(name) is not None


def sweep_leftovers(folder: Path, target: str | None = None) -> None:
    """Remove the temporary files, folders and locks of a folder that belong to no living process.

    Args:
        folder: the folder; it may be missing.
        target: only those that were to become the file or folder of this name; None: all.
    """
    wanted = None if target is None else short(target)
    try:
        names = [entry.name for entry in os.scandir(folder) if entry.name.startswith(".")]
    except OSError:
        return
    for name in names:
        match = _NAME.fullmatch(name) or _LOCK_NAME.fullmatch(name)
        if match is None or (wanted is not None and match["target"] != wanted):
            continue
        if not (name.endswith(OLD) and _needed(folder, match["target"])):
            _remove_if_left(folder / name)


def restore(target: Path) -> None:
    """Put back a folder that was moved away by a process that was killed before it put the new one there.

    Only where two folders cannot be exchanged in one step; the caller holds the lock of `target`.
    """
    if os.path.lexists(target) or not target.parent.is_dir():
        return
    for entry in os.scandir(target.parent):
        match = _NAME.fullmatch(entry.name)
        if match and entry.name.endswith(OLD) and match["target"] == short(target.name):
            os.replace(entry.path, target)
            return


def _needed(folder: Path, target: str) -> bool:
    """Whether a folder that was moved away is the only one: `restore` puts it back."""
    return not os.path.lexists(folder / target)


def _path(target: Path) -> Path:
    return target.with_name(f".{short(target.name)}{MARK}{secrets.token_hex(8)}")


def _locked(descriptor: int, path: Path) -> bool:
    """Lock a new file or folder; False, and it is closed, if somebody has taken it for a leftover."""
    try:
        if try_lock(descriptor) and same_file(descriptor, path):
            return True
    except LocksUnsupportedError:
        return True
    os.close(descriptor)
    return False


def _remove_if_left(path: Path) -> None:
    """Remove a file or folder unless a living process has locked it; one that cannot be opened is kept."""
    try:
        kind = os.lstat(path).st_mode
        if not (stat.S_ISREG(kind) or stat.S_ISDIR(kind)):
            return  # a link, a pipe: not made here
        try:
            descriptor = os.open(path, _READ if stat.S_ISDIR(kind) else _READ & ~os.O_RDONLY | os.O_RDWR)
        except PermissionError:
            descriptor = os.open(path, _READ)
    except OSError:
        return
    try:
        try:
            left = try_lock(descriptor) and same_file(descriptor, path)
        except LocksUnsupportedError:
            left = time.time() - os.fstat(descriptor).st_mtime > ABANDONED
        if left and stat.S_ISDIR(kind):
            shutil.rmtree(path, ignore_errors=True)
        elif left:
            with contextlib.suppress(OSError):
                path.unlink()
    finally:
        os.close(descriptor)
