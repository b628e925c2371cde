"""Atomic writes: a process killed at any moment leaves the old or the new content, never half of it."""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


@contextmanager
def new_folder(target: Path) -> Iterator[Path]:
    """Yield a temporary folder beside `target` that replaces it when the block ends without an exception.

    On Linux an existing `target` is exchanged for it in one system call and then deleted.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
    try:
        yield work
        open_to_others(work)
        sync_all(work)
        if target.exists():
            _exchange(work, target)
        else:
            os.replace(work, target)
        sync(target.parent)
    finally:
        shutil.rmtree(work, ignore_errors=True)


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
        old = work.with_name(f"{work.name}-old")
        os.replace(target, old)
        os.replace(work, target)
        os.replace(old, work)


def write_json(path: Path, value: Any) -> None:
    """Write a JSON file atomically."""
    write_text(path, as_json(value))


def as_json(value: Any) -> str:
    """The text of a JSON file."""
    return json.dumps(value, indent=1) + "\n"


def write_text(path: Path, text: str) -> None:
    """Write a text file atomically."""
    write_bytes(path, text.encode())


def write_bytes(path: Path, content: bytes) -> None:
    """Write a file atomically."""
    work = path.with_name(f".{path.name}.new")
    try:
        work.write_bytes(content)
        sync(work)
        os.replace(work, path)
        sync(path.parent)
    finally:
        work.unlink(missing_ok=True)


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
