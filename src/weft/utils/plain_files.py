"""Refuses links, pipes and devices in a folder that may come from a stranger.

A link may lead to any file of this machine, which a command would then copy or overwrite. Reading from a
named pipe or a device may never end. So the folder of a bundle, a run, an encoder or a PEFT adapter must hold
plain files. One kind of link is harmless and common: the cache of the Hugging Face hub stores each file once,
under `models--OWNER--NAME/blobs/HASH`, and its snapshots are folders of links to these.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Collection
from pathlib import Path

from weft.errors import WeftError

_SHARED_BLOB = re.compile(r"([0-9a-f]{2})/\1[0-9a-f]{62}")
_KINDS = {
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def check_plain_folder(folder: Path, what: str) -> None:
    """Refuse a folder that holds anything but plain files and folders, at any depth.

    Args:
        folder: the folder; it may be a link itself, because the user has named it.
        what: what the folder is, for messages ("a bundle").
    """
    waiting = [folder]
    while waiting:
        for entry in _entries(waiting.pop()):
            if entry.is_dir(follow_symlinks=False):
                waiting.append(Path(entry.path))
            else:
                check_plain_file(Path(entry.path), what)


def check_plain_top(folder: Path, what: str, subfolders: Collection[str] = ()) -> None:
    """Refuse a folder whose own files are not plain; files in other subfolders are not checked.

    A link to a plain file of the same folder is accepted.

    Args:
        folder: the folder.
        what: what the folder is, for messages ("an encoder").
        subfolders: subfolders that are read too, and are checked at any depth.
    """
    for entry in _entries(folder):
        path = Path(entry.path)
        if entry.name in subfolders:
            check_not_linked(path, what)
            if path.is_dir():
                check_plain_folder(path, what)
        elif not path.is_dir():
            check_plain_file(path, what, inside=folder)


def check_plain_entries(folder: Path, names: Collection[str], what: str) -> None:
    """Refuse some entries of a folder if they are not plain files, or folders of plain files.

    Args:
        folder: the folder; other entries of it are not checked.
        names: the entries; those that do not exist are left out.
        what: what the folder is, for messages ("a run").
    """
    for name in names:
        path = folder / name
        check_not_linked(path, what)
        if path.is_dir():
            check_plain_folder(path, what)
        elif path.exists():
            check_plain_file(path, what)


def check_not_linked(path: Path, what: str) -> None:
    """Refuse a file or folder that is a link.

    Args:
        path: the file or folder.
        what: what it is part of, for messages.
    """
    if path.is_symlink():
        raise _link(path, what)


def check_plain_file(path: Path, what: str, inside: Path | None = None) -> None:
    """Refuse a link, a named pipe, a socket or a device.

    Args:
        path: the file.
        what: what it is part of, for messages.
        inside: a folder to whose own files a link may point.
    """
    try:
        mode = path.lstat().st_mode
        if stat.S_ISLNK(mode):
            target = path.resolve()
            known = _is_blob(target) or (inside is not None and target.parent == inside.resolve())
            if not known or not target.is_file():
                raise _link(path, what)
        elif not stat.S_ISREG(mode):
            kind = _KINDS.get(stat.S_IFMT(mode), "not a file")
            raise WeftError(
                f"{path} is {kind}; the files of {what} must be plain files: delete it, or copy {what} again"
            )
    except (OSError, RuntimeError) as wrong:  # RuntimeError: a circle of links
        reason = getattr(wrong, "strerror", None) or str(wrong)
        raise WeftError(f"{path} cannot be read: {reason}") from None


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return sorted(entries, key=lambda entry: entry.name)
    except OSError as wrong:
        raise WeftError(f"{folder} cannot be read: {wrong.strerror}") from None


def _is_blob(target: Path) -> bool:
    """Whether a file is one that the cache of the hub stores once and links to."""
    if target.parent.name == "blobs":
        return target.parent.parent.name.startswith(("models--", "datasets--"))
    # newer versions store what several repositories have in `blobs/AB/ABCD…` of the cache
    return target.parent.parent.name == "blobs" and bool(_SHARED_BLOB.fullmatch("/".join(target.parts[-2:])))


def _link(path: Path, what: str) -> WeftError:
    try:
        target = os.readlink(path)
    except OSError:
        target = "somewhere else"
    return WeftError(
        f"{path} is a link to {target}; weft does not follow links out of {what}, because they may lead to "
        "any file of this machine\n  if you trust it, replace the link by a copy of what it points to"
    )
