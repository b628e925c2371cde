"""Processes that were forked: what a child must not take over from its parent.

A fork copies the memory of a process and one of its threads. The threads that PyTorch computes with are gone
in the child, and the next computation waits for them without end. Locks that other threads held stay locked.
"""

from __future__ import annotations

import os
import warnings
import weakref
from typing import TYPE_CHECKING, Any

from weft.errors import WeftError

if TYPE_CHECKING:
    from torch import nn

_computed = False
"""Whether weft has computed in this process."""
_forked = False
"""Whether this process was forked from one in which weft had computed, and has not computed since."""
_renewed: weakref.WeakSet[Any] = weakref.WeakSet()


def renew_after_fork(lock: Any) -> None:
    """Call `lock.renew()` in every forked child: nobody there holds the lock.

    Args:
        lock: an object with a method `renew`; it is not kept alive.
    """
    _renewed.add(lock)


def before_computing(module: nn.Module | None = None) -> None:
    """Call this before PyTorch computes. In a child of a process that called it, PyTorch uses one thread.

    Only the first call in a child has this effect; `torch.set_num_threads` may set another number after it. A
    child of a process that has only imported modules, as multiprocessing's fork server, is not affected.

    Args:
        module: what will be computed with, if it exists already.

    Raises:
        WeftError: the module is on a GPU, which a forked child cannot use.
    """
    global _computed, _forked
    _computed = True
    if not _forked:
        return
    import torch

    if module is not None and next(module.parameters()).device.type == "cuda":
        raise WeftError(
            "this process was forked from one that has used the GPU, and cannot use the model there; start "
            "processes by multiprocessing.get_context('spawn'), and load the model in each of them"
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
    global _computed, _forked
    _forked, _computed = _forked or _computed, False
    for lock in list(_renewed):
        lock.renew()


if hasattr(os, "register_at_fork"):  # not on Windows, which has no fork
    os.register_at_fork(after_in_child=_after_fork)
