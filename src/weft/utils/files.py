"""Atomic writes: a process killed at any moment leaves the old or the new content, never half of it."""

from __future__ import annotations

import ctypes
import errno
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from weft.errors import words
from weft.utils.lock import beside, locked
from weft.utils.temporary import OLD, create_file, restore, temporary_folder
from weft.utils.write_errors import explained, under_final_names


@contextmanager
def new_folder(target: Path) -> Iterator[Path]:
    """Yield a temporary folder beside `target` that replaces it when the block ends without an exception.

    On Linux an existing `target` is exchanged for it in one system call and then deleted. Nobody else writes
    `target` at the same time; a second writer waits. A link to a folder stays one.
    """
    target = Path(os.path.realpath(target))
    with explained(target):
        target.parent.mkdir(parents=True, exist_ok=True)
    with (
        locked(beside(target), target, doing=words("weft", "a Python program"), file=target),
        explained(target),
    ):
        restore(target)
        with temporary_folder(target) as work, under_final_names(work, target), explained(work):
            yield work
            open_to_others(work)
            sync_all(work)
            if target.exists():
                _exchange(work, target)
            else:
                os.replace(work, target)
            sync(target.parent)


def open_to_others(path: Path) -> None:
    """Give a file, or a folder with all its files, the modes that the umask asks for.

    `mkdtemp` makes folders that only their owner can read, and safetensors makes such files.
    """
    masked = _umask()
    for item in (path, *path.rglob("*")) if path.is_dir() else (path,):
        item.chmod((0o777 if item.is_dir() else 0o666) & ~masked)


def _umask() -> int:
    """Return the process's umask."""
    try:
        status = Path("/proc/self/status").read_text(encoding="utf-8")
        return int(status.partition("Umask:")[2].split()[0], 8)
    except (OSError, IndexError, ValueError):
        # elsewhere it can only be read by changing it, for a moment and for all threads
        masked = os.umask(0o077)
        os.umask(masked)
        return masked


def _exchange(work: Path, target: Path) -> None:
    """Exchange two folders."""
    try:
        libc = ctypes.CDLL(None, use_errno=True)
        code = libc.renameat2(
            -100, os.fsencode(work), -100, os.fsencode(target), 2
        )  # AT_FDCWD, RENAME_EXCHANGE
    except (OSError, AttributeError):
        code = -1
    if code != 0:  # on other systems by several renames, which are not atomic together
        old = work.with_name(f"{work.name}{OLD}")
        os.replace(target, old)  # a process that is killed here leaves no target: `restore` puts it back
        os.replace(work, target)
        os.replace(old, work)


def write_json(path: Path, value: Any) -> None:
    """Write a JSON file atomically."""
    write_text(path, as_json(value))


def as_json(value: Any) -> str:
    """The text of a JSON file."""
    return json.dumps(value, indent=1) + "\n"


def write_text(path: Path, text: str, replace: bool = True) -> None:
    """Write a text file atomically; see `write_bytes`."""
    write_bytes(path, text.encode(), replace)


def write_bytes(path: Path, content: bytes, replace: bool = True) -> None:
    """Write a file atomically; a link of this name is replaced and not followed.

    Args:
        path: the file.
        content: its content.
        replace: whether an existing file is replaced; else it raises `FileExistsError`.
    """
    with explained(path):
        work = create_file(path)
        assert work.descriptor is not None
        try:
            with open(work.descriptor, "wb", closefd=False) as stream:
                stream.write(content)
                stream.flush()
                os.fsync(work.descriptor)
            _put(work.path, path, replace)
            sync(path.parent)
        finally:
            work.remove()


def write_output(path: Path, content: str | bytes, replace: bool = True) -> None:
    """Write a file that a user has named, atomically. A link stays one; a pipe or a device is written to.

    Args:
        path: the file.
        content: its content.
        replace: whether an existing file is replaced; else it raises `FileExistsError`.
    """
    data = content.encode() if isinstance(content, str) else content
    if path.exists() and not path.is_file():
        with explained(path), path.open("wb") as stream:
            stream.write(data)
    else:
        write_bytes(Path(os.path.realpath(path)), data, replace)


def _put(work: Path, path: Path, replace: bool) -> None:
    """Give a complete file its name."""
    if not replace:
        try:
            os.link(work, path)  # fails if the name is taken, whoever has taken it since it was checked
            return
        except OSError as wrong:
            # a file system without second names
            if isinstance(wrong, FileExistsError) or os.path.lexists(path):
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path)) from None
    os.replace(work, path)


def sweep(folder: Path, *patterns: str) -> None:
    """Remove half-written files and folders of a killed process, by the patterns of their names."""
    for pattern in patterns:
        for leftover in folder.glob(pattern):
            if leftover.is_dir():
                shutil.rmtree(leftover)
            else:
                leftover.unlink()


def sync(path: Path) -> None:
    """Flush a file or folder to the disk; of a folder the names in it, not the contents of its files."""
    try:
        handle = os.open(path, os.O_RDONLY)
    except PermissionError:
        if path.is_dir():  # on Windows a folder cannot be opened
            return
        raise
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def sync_all(folder: Path) -> None:
    """Flush a folder to the disk: all its files, then its folders, the innermost first."""
    paths = sorted(folder.rglob("*"), key=lambda path: (path.is_dir(), -len(path.parts)))
    for path in (*paths, folder):
        if path.is_dir() or path.is_file():
            sync(path)
