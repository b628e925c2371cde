"""Errors of the disk with file, folder, reason and what to do: a full disk, a quota, a read-only folder."""

from __future__ import annotations

import errno
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from weft.errors import RunFailed, WeftError

_NUMBER = re.compile(r"\(os error (\d+)\)|\[[Ee]rrno (\d+)\]|Os \{ code: (\d+),")
"""How libraries in other languages name the error, safetensors among them."""
_SHORT = re.compile(r"^\d+ requested and \d+ written$")
"""What numpy says if an array does not fit on the disk; it does not give the reason."""

FAILED = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
"""The work failed although the call was right: exit code 1."""
REFUSED = (errno.EROFS, errno.EACCES, errno.EPERM)
"""The folder cannot be written to by this user: exit code 2."""


class CannotWrite(WeftError, OSError):
    """A file cannot be written. Also an `OSError`, with its `errno`.

    Attributes:
        file: the file.
        number: the error of the system, such as `errno.ENOSPC`.
    """

    def __init__(self, file: str, number: int) -> None:
        super().__init__(file, number)
        self.file, self.number = file, number
        self.errno = number

    def __reduce__(self) -> tuple[type[CannotWrite], tuple[str, int]]:
        return type(self), (self.file, self.number)

    def __str__(self) -> str:
        return _message(Path(self.file), self.number)


class WriteFailed(CannotWrite, RunFailed):
    """A file cannot be written although the call was right, such as on a full disk. Exit code 1."""


@contextmanager
def explained(file: str | Path) -> Iterator[None]:
    """Inside, an error of the disk becomes a `CannotWrite` that names the file, unless it is about reading.

    Args:
        file: the file that is written inside, or the folder, of which the error may name a file.
    """
    try:
        yield
    except WeftError:
        raise
    except Exception as wrong:
        number = number_of(wrong, Path(file))
        if number is None or _elsewhere(wrong, Path(file)):
            raise
        raise (WriteFailed if number in FAILED else CannotWrite)(_exact(wrong, Path(file)), number) from wrong


@contextmanager
def explained_stream(name: str) -> Iterator[None]:
    """Inside, an error of the disk behind an open stream becomes a `RunFailed` that names the stream."""
    try:
        yield
    except OSError as wrong:
        if wrong.errno not in FAILED:
            raise
        name = "standard output" if name == "<stdout>" else name
        raise RunFailed(f"{name}: it cannot be written to any further: {os.strerror(wrong.errno)}") from wrong


@contextmanager
def under_final_names(work: Path, target: Path) -> Iterator[None]:
    """Inside, errors that name a file of the temporary folder `work` name it as it will be in `target`."""
    try:
        yield
    except CannotWrite as wrong:
        file = Path(wrong.file)
        if file != work and work not in file.parents:
            raise
        raise type(wrong)(str(target / file.relative_to(work)), wrong.number) from wrong


def number_of(wrong: BaseException, near: Path) -> int | None:
    """The number of the disk's error behind an exception; None if it is no error of the disk.

    Args:
        wrong: the exception, of Python or of a library in another language.
        near: what was being written.
    """
    number = wrong.errno if isinstance(wrong, OSError) else None
    if number is None and (match := _NUMBER.search(str(wrong))):
        number = int(match[1] or match[2] or match[3])
    if number is None and isinstance(wrong, OSError) and _SHORT.match(str(wrong)):
        number = errno.ENOSPC if (_free(near) or 0) < 1 << 20 else errno.EIO
    return number if number in (*FAILED, *REFUSED) else None


def _exact(wrong: BaseException, file: Path) -> str:
    """The file of a folder that an error names: of a copy the second one; else the folder."""
    for name in (getattr(wrong, "filename2", None), getattr(wrong, "filename", None)):
        if isinstance(name, str) and file in Path(name).parents:
            return name
    return str(file)


def _elsewhere(wrong: BaseException, file: Path) -> bool:
    """Whether the error is about a file that was only read: permissions matter for these too."""
    named = getattr(wrong, "filename", None)
    if not isinstance(named, str | bytes) or getattr(wrong, "errno", None) not in (errno.EACCES, errno.EPERM):
        return False
    path, target = Path(os.fsdecode(named)).absolute(), file.absolute()
    beside = path.parent == target.parent and path.name.startswith(f".{target.name}.")
    return not (beside or path == target or target in path.parents or path in target.parents)


def _message(file: Path, number: int) -> str:
    folder = file.absolute().parent
    if number == errno.ENOSPC:
        return (
            f"{file}: the disk is full, and the file cannot be written to {folder}{_left(file)}\n"
            f"  free some space there, or choose a folder on a different disk"
        )
    if number == errno.EDQUOT:
        return (
            f"{file}: your quota is used up, and the file cannot be written to {folder}\n"
            f"  delete files of yours on this file system, or choose a folder on a different one"
        )
    if number == errno.EFBIG:
        return (
            f"{file}: the file would be larger than the system allows in {folder}\n"
            "  raise the limit (ulimit -f), or choose a folder on a file system without this limit"
        )
    if number == errno.EIO:
        return (
            f"{file}: the disk of {folder} reports an error (input/output error)\n"
            f"  check the disk (dmesg), or choose a folder on a different one"
        )
    if number == errno.EROFS:
        return (
            f"{file}: {folder} is on a file system that is mounted read-only\n"
            f"  choose a folder that can be written to"
        )
    return (
        f"{file}: you have no permission to write to {folder}{_owner(folder)}\n"
        f"  choose a folder of yours, or ask its owner for the permission"
    )


def _owner(folder: Path) -> str:
    """The mode and the owner of the nearest folder that exists."""
    try:
        place = next(path for path in (folder, *folder.absolute().parents) if path.exists())
        try:
            owner = place.owner()
        except (KeyError, NotImplementedError):
            owner = str(place.stat().st_uid)
        return f" (its owner is {owner}, its mode {place.stat().st_mode & 0o777:03o})"
    except (OSError, StopIteration):
        return ""


def _left(file: Path) -> str:
    """What is left of a disk: bytes, or none of the places for further files."""
    free = _free(file)
    if free is None:
        return ""
    if free > 1 << 20 and hasattr(os, "statvfs"):
        place = next((path for path in (file, *file.absolute().parents) if path.exists()), Path("/"))
        if os.statvfs(place).f_favail == 0 < os.statvfs(place).f_files:
            return " (it can hold no further file: its inodes are used up)"
    return f" ({free / 1e6:,.1f} MB are free)"


def _free(file: Path) -> int | None:
    """The free bytes where a file is or would be."""
    for place in (file, *file.absolute().parents):
        try:
            return shutil.disk_usage(place).free
        except OSError:
            continue
    return None
