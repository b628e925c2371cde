"""Writing files and folders so that a kill at any moment leaves the old or the new, never a half."""

from __future__ import annotations

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

    What stood there before is moved out of the way and deleted last.
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
            old = Path(tempfile.mkdtemp(prefix=f".{target.name}-old-", dir=target.parent))
            os.replace(target, old / target.name)
            os.replace(work, target)
            shutil.rmtree(old)
        else:
            os.replace(work, target)
        sync(target.parent)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def write_json(path: Path, value: Any) -> None:
    """Write a JSON file in one move."""
    write_text(path, json.dumps(value, indent=1) + "\n")


def write_text(path: Path, text: str) -> None:
    """Write a text file in one move."""
    work = path.with_name(f".{path.name}.new")
    work.write_text(text, encoding="utf-8")
    sync(work)
    os.replace(work, path)


def sweep(folder: Path) -> None:
    """Remove what a killed process left half-written in a folder that nobody else writes to."""
    for left in folder.glob(".*"):
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
