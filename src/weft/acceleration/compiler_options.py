"""Compiler options for weft's compiled pieces, in effect only while such a piece runs."""

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
"""To the compiler, each block of each model is a variant of the same code; its default limit is 8."""

_IN_ORDER = (2, 13)
"""The first torch whose compiler runs random operations in the order in which they are written."""


def inductor_options() -> dict[str, Any]:
    """Return the options of `torch.compile` for every piece.

    Random numbers are drawn by torch's operations (`fallback_random`), so that compiled and uncompiled code
    draw the same numbers and engines can be compared. It is also faster: on a GPU torch draws four numbers at
    a time, of which a compiled kernel would use one; on a CPU a training step of three small blocks took
    0.167 s, with the compiler's numbers 0.204 s.
    """
    options: dict[str, Any] = {"fallback_random": True}
    if _version() < _IN_ORDER:
        options["reorder_for_peak_memory"] = False  # it would reorder random operations
    return options


@contextmanager
def compiler_options(static: bool) -> Iterator[None]:
    """Inside, dynamo has the options that weft's pieces need; afterwards the previous options are restored.

    Dynamo reads its options when it compiles a frame, which happens inside the call that needs it. No other
    model should see them changed. In some versions of torch (2.11) all threads share them. There, if calls
    overlap, the last one to end restores the options from before the first one.

    Args:
        static: whether shapes of tensors that are attributes of modules are treated as constants. An
            adapter stores what it looked up for the rows of a pass, with one entry per row. Training has
            few numbers of rows, and dynamic ones double the graphs; inference has any number of rows.
    """
    with _lock:
        active = _in_this_thread.active if per_thread() else _in_this_process
        before = _get()
        if not active:
            active.append(before)
        # if there are as many rows as tokens, that is chance: treated as one number, the next batch would
        # recompile everything; floats are constants of the model: treated as data, each piece is traced twice
        options = [static, max(before[1], RECOMPILATIONS), max(before[2], 8 * RECOMPILATIONS), False, True]
        active.append(options)
        _set(*options)
    try:
        yield
    finally:
        with _lock:
            # by identity: another thread may be inside with equal options
            del active[next(i for i, entry in enumerate(active) if entry is options)]
            _set(*active[-1])
            if len(active) == 1:
                active.clear()


class _InThisThread(PerThread):
    def __init__(self) -> None:
        self.active: list[Sequence[Any]] = []


# The previous options, and those of each call that is running now; the last ones are in effect.
_in_this_process: list[Sequence[Any]] = []
_in_this_thread = _InThisThread()
_lock = threading.Lock()


@functools.cache
def per_thread() -> bool:
    """Return whether this torch has thread-local options, by trying a change in another thread."""
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
