"""A disk of a few kilobytes, for tests of what happens when it is full. It is a real one, and needs root."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class CannotMount(Exception):
    """This machine or user cannot mount a disk."""


@contextmanager
def small_disk(folder: Path, size: str = "256k", options: str = "") -> Iterator[Path]:
    """Inside, `folder` is a disk of this size; raises `CannotMount` where that is not possible."""
    folder.mkdir(parents=True, exist_ok=True)
    if shutil.which("mount") is None or not hasattr(os, "getuid") or os.getuid() != 0:
        raise CannotMount
    settings = f"size={size}{options and ',' + options}"
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", settings, "tmpfs", str(folder)], capture_output=True, check=False
    )
    if done.returncode:
        raise CannotMount(done.stderr.decode(errors="replace"))
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=False)


def read_only(folder: Path) -> None:
    """Mount the disk again so that it cannot be written to."""
    subprocess.run(["mount", "-o", "remount,ro", str(folder)], check=True)


def fill(folder: Path, leave: int = 0) -> Path:
    """Fill a disk, but for so many bytes; returns the file that fills it."""
    file = folder / "filler"
    free = shutil.disk_usage(folder).free
    with file.open("wb") as stream:
        stream.write(b"x" * max(0, free - leave))
    return file
