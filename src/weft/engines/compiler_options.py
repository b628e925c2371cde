"""The compiler's options for weft's pieces, in force only while such a piece runs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch._dynamo
from torch.fx.experimental import _config as shapes

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

    Dynamo reads its options when it compiles a frame, which happens inside the call that needs it. They are
    process-wide (per thread in newer versions of torch), so that no other model should see them changed.

    Args:
        static: whether shapes of tensors that hang on modules are taken for constants. What is looked up for
            the rows of a pass hangs on an adapter, and has as many rows as they are. In training these are
            few numbers, and open ones take twice the graphs; answers have any number of rows.
    """
    dynamo: Any = torch._dynamo.config
    before = (
        dynamo.force_nn_module_property_static_shapes,
        dynamo.recompile_limit,
        dynamo.accumulated_recompile_limit,
        shapes.use_duck_shape,
    )
    # as many rows as tokens are so by chance: taken for one number, the next batch compiles all anew
    _set(static, max(before[1], RECOMPILATIONS), max(before[2], 8 * RECOMPILATIONS), False)
    try:
        yield
    finally:
        _set(*before)


def _set(static: bool, limit: int, in_all: int, duck: bool) -> None:
    dynamo: Any = torch._dynamo.config
    dynamo.force_nn_module_property_static_shapes = static
    dynamo.recompile_limit = limit
    dynamo.accumulated_recompile_limit = in_all
    shapes.use_duck_shape = duck


def _version() -> tuple[int, ...]:
    return tuple(int(part) for part in torch.__version__.split("+")[0].split(".")[:2])
