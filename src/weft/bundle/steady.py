"""Reading a bundle while somebody else may replace it: all files are those of one state.

Readers take no lock. A writer puts a new folder in the place of the bundle's, in one step. A reader that has
begun with the old folder may find a file of the new one, or none; so it looks whether the folder is still the
same when it has read all it needs, and reads again if not.
"""

from __future__ import annotations

import functools
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Concatenate, ParamSpec, TypeVar

from weft.errors import WeftError
from weft.utils.lock import beside, locked
from weft.utils.lock_file import LockHeld
from weft.utils.temporary import restore

P = ParamSpec("P")
T = TypeVar("T")

TRIES = 50
"""How often a bundle is read that somebody replaces again and again."""


def steady(
    read: Callable[Concatenate[str | Path, P], T],
) -> Callable[Concatenate[str | Path, P], T]:
    """Decorate a function that reads the bundle named by its first argument, or that of a run's folder.

    The function is called again if the bundle was replaced in the meantime; so it must not change anything
    that a second call would not change in the same way.
    """

    @functools.wraps(read)
    def steadily(folder: str | Path, /, *arguments: P.args, **settings: P.kwargs) -> T:
        return _until_unchanged([folder], lambda: read(folder, *arguments, **settings))

    return steadily


def steady_all(
    read: Callable[Concatenate[Sequence[str | Path], P], T],
) -> Callable[Concatenate[Sequence[str | Path], P], T]:
    """Decorate a function that reads all bundles of its first argument, a list; see `steady`."""

    @functools.wraps(read)
    def steadily(folders: Sequence[str | Path], /, *arguments: P.args, **settings: P.kwargs) -> T:
        return _until_unchanged(folders, lambda: read(folders, *arguments, **settings))

    return steadily


def unchanged(folder: Path, read: Callable[[], T]) -> T:
    """Return what `read` returns, or raise an error if the bundle was replaced while it ran.

    For a function that cannot be called twice.
    """
    return _until_unchanged([folder], read, 1)


def _until_unchanged(folders: Sequence[str | Path], read: Callable[[], T], tries: int = TRIES) -> T:
    for attempt in range(tries):
        state = _State(folders)
        try:
            result = read()
        except Exception:
            if not state.changed():
                raise
        else:
            if not state.changed():
                return result
        finally:
            state.close()
        time.sleep(min(0.001 * 2**attempt, 0.1))
    names = ", ".join(map(str, folders))
    again = " again and again" if tries > 1 else ""
    raise WeftError(f"{names}: a different process replaced this{again} while it was read; try again")


class _State:
    """Which folders some paths name now. They are kept open: their numbers are not used for other folders."""

    def __init__(self, folders: Sequence[str | Path]) -> None:
        self._paths = [path for folder in folders for path in (Path(folder), Path(folder) / "bundle")]
        self._open: list[int] = []
        self._before = self._now(keep=True)

    def changed(self) -> bool:
        return self._now(keep=False) != self._before

    def close(self) -> None:
        for descriptor in self._open:
            os.close(descriptor)
        self._open = []

    def _now(self, keep: bool) -> list[tuple[int, int] | None]:
        return [self._identity(path, keep) for path in self._paths]

    def _identity(self, path: Path, keep: bool) -> tuple[int, int] | None:
        try:
            if keep and os.name != "nt":
                descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
                self._open.append(descriptor)
                status = os.fstat(descriptor)
            else:
                status = os.stat(path)
        except OSError:
            return None
        return status.st_dev, status.st_ino


def wait_for_writer(folder: Path) -> bool:
    """Whether a bundle that is missing may be there now: somebody was replacing it, or was killed doing so.

    Only where two folders cannot be exchanged in one step is a bundle missing for a moment.

    Args:
        folder: the bundle's folder, without a manifest.
    """
    lock = beside(folder)
    if folder.exists() or not lock.exists():
        return False
    try:
        with locked(lock, folder, doing="reading", wait=5.0):
            restore(Path(os.path.realpath(folder)))
    except (LockHeld, OSError):
        pass
    return folder.exists()
