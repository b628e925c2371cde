"""One writer per run's folder.

The lock's file is in the folder and not beside it: the folder may be a container's mount point, and what is
beside it is then the container's own.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import ParamSpec, TypeVar

from weft.errors import RunFailed, WeftError, words
from weft.utils.lock import LOCK, different_out, held, locked
from weft.utils.lock_file import Lock

P = ParamSpec("P")
T = TypeVar("T")


@contextmanager
def writing_run(folder: Path) -> Iterator[Lock]:
    """Inside, nobody else trains into the folder; raises `LockHeld` at once if somebody does.

    Args:
        folder: the run's folder; it is created, and removed again if nothing is written to it.
    """
    if folder.is_file():
        raise WeftError(f"{folder} is a file; expected a folder as {words('--out', 'out')}")
    with locked(
        folder / LOCK,
        folder,
        doing=words("weft train", "weft.train"),
        file=folder / "run.yaml",
        advice=different_out(),
        wait=0.0,
    ) as lock:
        yield lock


def one_writer(train: Callable[P, T]) -> Callable[P, T]:
    """Decorate `train`: it holds the lock of its folder. Of several processes the first one holds it."""
    signature = inspect.signature(train)

    @functools.wraps(train)
    def locking(*arguments: P.args, **settings: P.kwargs) -> T:
        from weft.utils.processes import Processes

        call = signature.bind(*arguments, **settings)
        call.apply_defaults()
        processes = Processes.join(next(call.arguments["model"].parameters()).device)
        with ExitStack() as stack:

            def lock() -> None:
                stack.enter_context(writing_run(Path(call.arguments["out"])))

            processes.on_main(lock)
            return train(*arguments, **settings)

    return locking


def check_still_ours(folder: Path) -> None:
    """Raise an error if the folder was deleted or replaced while this thread trains into it."""
    lock = held(folder / LOCK)
    if lock is not None and lock.lost():
        raise RunFailed(
            f"{folder} was deleted or replaced while this run was training; the run ends, and does not write "
            "to what is there now"
        )
