"""The compiler's options for weft's pieces, in force only while such a piece runs."""

from __future__ import annotations

import functools
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
import torch._dynamo
from torch.fx.experimental import _config as shapes

from weft.utils.threads import PerThread

RECOMPILATIONS = 512
"""Each block of each model is a variant of one piece of code to the compiler, whose own limit is 8."""

_IN_ORDER = (2, 13)
"""The first torch whose compiler runs random operations in the order in which they are written."""


def inductor_options() -> dict[str, Any]:
    """What `torch.compile` is given for every piece.

    Random numbers are drawn by torch's own operations (`fallback_random`), so that compiled code draws what
    uncompiled code draws: an engine could not be compared with anything otherwise. It is also faster: on a
    GPU torch draws four numbers at a time of which a compiled kernel would use one; on a CPU a training step
    of three small blocks took 0.167 s, with the compiler's own numbers 0.204 s.
    """
    options: dict[str, Any] = {"fallback_random": True}
    if _version() < _IN_ORDER:
        options["reorder_for_peak_memory"] = False  # it moves random operations as well
    return options


@contextmanager
def compiler_options(static: bool) -> Iterator[None]:
    """Inside, dynamo compiles as weft's pieces need it; afterwards its options are what they were.

    Dynamo reads its options when it compiles a frame, which happens inside the call that needs it. No other
    model should see them changed. In some versions of torch (2.11) all threads share them. There, of calls
    that overlap, the last one to end restores what the first one found.

    Args:
        static: whether shapes of tensors that hang on modules are taken for constants. What is looked up for
            the rows of a pass hangs on an adapter, and has as many rows as they are. In training these are
            few numbers, and open ones take twice the graphs; answers have any number of rows.
    """
    with _lock:
        active = _in_this_thread.active if per_thread() else _in_this_process
        before = _get()
        if not active:
            active.append(before)
        # as many rows as tokens are so by chance: taken for one number, the next batch compiles all anew;
        # floats are shares and factors of the model: taken for data first, each piece would be traced twice
        mine = [static, max(before[1], RECOMPILATIONS), max(before[2], 8 * RECOMPILATIONS), False, True]
        active.append(mine)
        _set(*mine)
    try:
        yield
    finally:
        with _lock:
            # by identity: another thread may be inside with equal options
            del active[next(i for i, each in enumerate(active) if each is mine)]
            _set(*active[-1])
            if len(active) == 1:
                active.clear()


class _InThisThread(PerThread):
    def __init__(self) -> None:
        self.active: list[Sequence[Any]] = []


# What the options were, and those of each call that is running now, the last of which are in force.
_in_this_process: list[Sequence[Any]] = []
_in_this_thread = _InThisThread()
_lock = threading.Lock()


@functools.cache
def per_thread() -> bool:
    """Whether this torch gives each thread options of its own: a change in one thread is tried."""
    dynamo: Any = torch._dynamo.config
    before = dynamo.recompile_limit

    def change() -> None:
        dynamo.recompile_limit = before + 1

    thread = threading.Thread(target=change)
    thread.start()
    thread.join()
    shared = dynamo.recompile_limit != before
    dynamo.recompile_limit = before
    return not shared


def _get() -> Sequence[Any]:
    dynamo: Any = torch._dynamo.config
    return [
        dynamo.force_nn_module_property_static_shapes,
        dynamo.recompile_limit,
        dynamo.accumulated_recompile_limit,
        shapes.use_duck_shape,
        dynamo.specialize_float,
    ]


def _set(static: bool, limit: int, in_all: int, duck: bool, floats: bool) -> None:
    dynamo: Any = torch._dynamo.config
    dynamo.force_nn_module_property_static_shapes = static
    dynamo.recompile_limit = limit
    dynamo.accumulated_recompile_limit = in_all
    shapes.use_duck_shape = duck
    dynamo.specialize_float = floats


def _version() -> tuple[int, ...]:
    return tuple(int(part) for part in torch.__version__.split("+")[0].split(".")[:2])
