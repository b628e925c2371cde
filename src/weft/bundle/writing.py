"""One writer per bundle: the locks of commands that change a bundle, or write a new one.

A lock's file is beside the bundle and not in it: the bundle's folder is replaced as a whole. A command holds
the lock from its first look at what it changes to its last write, so that the result of several commands at
once is that of one after another. Commands that train hold no lock of an existing bundle while they train:
they reserve their task's name, and look again at what they change when they write.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from weft.tasks.checks import NAME
from weft.utils.hub_repository import check_not_in_cache
from weft.utils.lock import LOCK, beside, different_out, locked, short
from weft.utils.lock_file import Lock, LockHeld
from weft.utils.temporary import restore, sweep_leftovers


@contextmanager
def writing_bundle(folder: str | Path, doing: str, *, at_once: bool = False) -> Iterator[Lock]:
    """Inside, nobody else writes the bundle; see `weft.utils.lock`.

    What killed writers of the bundle have left is removed first.

    Args:
        folder: the bundle's folder, which may not exist yet.
        doing: what is done, for messages of others, such as `weft task copy`.
        at_once: raise `LockHeld` if somebody else writes the bundle, instead of waiting.
    """
    folder = Path(folder)
    check_not_in_cache(folder)
    advice, wait = (different_out(), 0.0) if at_once else ("", None)
    with locked(beside(folder), folder, doing=doing, file=folder, advice=advice, wait=wait) as lock:
        real = Path(os.path.realpath(folder))
        restore(real)
        sweep_leftovers(real.parent, real.name)
        yield lock


@contextmanager
def changing_task(bundle: Path, out: Path, name: str, doing: str) -> Iterator[None]:
    """Inside, nobody else adds, trains, replaces or removes this task of the bundle `out`; raises at once.

    A new bundle is reserved as a whole: of two commands that would both train and then write it, the second
    would replace what the first has written.

    Args:
        bundle: the bundle that is changed.
        out: the folder of the result, the bundle itself or a new one.
        name: the task.
        doing: what is done, for messages of others.
    """
    if os.path.realpath(bundle) != os.path.realpath(out):
        with writing_bundle(out, doing, at_once=True):
            yield
        return
    real = Path(os.path.realpath(out))
    part = name if NAME.fullmatch(name) else hashlib.sha256(name.encode()).hexdigest()[:16]
    path = real.with_name(f".{short(real.name)}.task-{part}{LOCK}")
    what = f"task {name!r} of {out}"
    with locked(path, what, doing=doing, file=out, advice=different_out(), wait=0.0):
        yield


def wait_for_writer(folder: Path) -> bool:
    """Whether a bundle that was missing is there now: somebody was replacing it, or was killed doing so.

    Only where folders cannot be exchanged in one step is a bundle missing for a moment: on NFS, for example.

    Args:
        folder: the bundle's folder.
    """
    if folder.exists() or not beside(folder).exists():
        return False
    with suppress(LockHeld, OSError), locked(beside(folder), folder, doing="reading", wait=5.0):
        restore(Path(os.path.realpath(folder)))
    return folder.exists()
