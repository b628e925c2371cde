"""Processes that were forked: what a child must not take over from its parent.

A fork copies the memory of a process and one of its threads. The threads that PyTorch computes with are gone
in the child, and the next computation waits for them without end. Locks that other threads held stay locked.
"""

from __future__ import annotations

import os
import sys
import warnings
import weakref
from collections.abc import Callable
from typing import Any

from weft.errors import WeftError

_forked = False
_renewed: weakref.WeakSet[Any] = weakref.WeakSet()


def renew_after_fork(lock: Any) -> None:
    """Call `lock.renew()` in every forked child: nobody there holds the lock.

    Args:
        lock: an object with a method `renew`; it is not kept alive.
    """
    _renewed.add(lock)


def prepare_forked() -> None:
    """Call this before PyTorch computes: in a forked child it then uses one thread.

    Only the first call in a child has an effect; `torch.set_num_threads` may set another number after it.

    Raises:
        WeftError: the parent has used a GPU, which a forked child cannot use.
    """
    global _forked
    if not _forked:
        return
    import torch

    if getattr(torch.cuda, "_is_in_bad_fork", bool)():
        raise WeftError(
            "this process was forked from one that has used the GPU, and cannot use it; start processes by "
            "multiprocessing.get_context('spawn'), and load the model in each of them"
        )
    _forked = False
    if torch.get_num_threads() > 1:
        torch.set_num_threads(1)
        warnings.warn(
            "this process was forked, and the threads of PyTorch do not survive a fork: weft computes with "
            "one thread here; for more, start processes by multiprocessing.get_context('spawn')",
            RuntimeWarning,
            stacklevel=3,
        )


class SameProcess:
    """Notices a fork that has happened since it was made: a thread of the parent is missing in the child."""

    def __init__(self) -> None:
        self._process = os.getpid()

    def check(self, what: str) -> None:
        """Raise an error in a forked child.

        Args:
            what: what cannot be continued there.
        """
        if os.getpid() != self._process:
            raise WeftError(
                f"{what} was started before this process was forked and cannot be continued in the child; "
                "start a new one here"
            )


def _after_fork() -> None:
    global _forked
    # without PyTorch in the parent there are no threads to lose
    _forked = _forked or "torch" in sys.modules
    renew: Callable[[], None]
    for renew in [lock.renew for lock in _renewed]:
        renew()


if hasattr(os, "register_at_fork"):  # not on Windows, which has no fork
    os.register_at_fork(after_in_child=_after_fork)
