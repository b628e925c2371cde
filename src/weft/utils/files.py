"""Writing files and folders so that a kill at any moment leaves the old or the new, never a half."""

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
    """A temporary folder beside `target` that takes its place when the block ends well.

    What stood there before is exchanged for it in one move where the system can (Linux), and deleted then.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
    try:
        yield work
        for file in work.rglob("*"):
            if file.is_file():
                sync(file)
        work.chmod(0o755)  # mkdtemp makes it private
        if target.exists():
            _exchange(work, target)
        else:
            os.replace(work, target)
        sync(target.parent)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _exchange(work: Path, target: Path) -> None:
    """Let two folders change places."""
    try:
        libc = ctypes.CDLL(None, use_errno=True)
        code = libc.renameat2(
            -100, os.fsencode(work), -100, os.fsencode(target), 2
        )  # AT_FDCWD, RENAME_EXCHANGE
    except (OSError, AttributeError):
        code = -1
    if code != 0:  # elsewhere in two moves, with a moment between them
        old = work.with_name(f"{work.name}-old")
        os.replace(target, old)
        os.replace(work, target)
        os.replace(old, work)


def write_json(path: Path, value: Any) -> None:
    """Write a JSON file in one move."""
    write_text(path, json.dumps(value, indent=1) + "\n")


def write_text(path: Path, text: str) -> None:
    """Write a text file in one move."""
    write_bytes(path, text.encode())


def write_bytes(path: Path, content: bytes) -> None:
    """Write a file in one move."""
    work = path.with_name(f".{path.name}.new")
    try:
        work.write_bytes(content)
        sync(work)
        os.replace(work, path)
    finally:
        work.unlink(missing_ok=True)


def sweep(folder: Path, *patterns: str) -> None:
    """Remove what a killed process left half-written under names of these patterns."""
    for pattern in patterns:
        for left in folder.glob(pattern):
            if left.is_dir():
                shutil.rmtree(left)
            else:
                left.unlink()


def sync(path: Path) -> None:
    """Have a file or folder reach the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
