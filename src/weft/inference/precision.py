"""The precision of forward passes."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from typing import TYPE_CHECKING, Literal, get_args

import torch

from weft.errors import WeftError

if TYPE_CHECKING:
    from weft.model.model import Model

Precision = Literal["float32", "bf16"]
PRECISIONS: tuple[str, ...] = get_args(Precision)

PassContext = Callable[[], AbstractContextManager[object]]
"""Makes the context that a pass runs inside, such as autocast."""


def checked_precision(precision: str) -> Precision:
    """The precision; an error if there is none of this name."""
    if precision not in PRECISIONS:
        raise WeftError(f"precision {precision!r}: expected {' or '.join(PRECISIONS)}")
    return precision  # type: ignore[return-value]


def precision_context(model: Model, precision: str | None) -> PassContext | None:
    """What passes of this precision run inside; None: nothing. An unknown precision is an error."""
    if precision is None:
        return None
    bf16 = checked_precision(precision) == "bf16"
    return partial(torch.autocast, next(model.parameters()).device.type, torch.bfloat16, enabled=bf16)


def precision_now(model: Model) -> Precision | None:
    """The precision that a pass would have in this place; None of one that is never captured (float16)."""
    device = next(model.parameters()).device.type
    if not torch.is_autocast_enabled(device):
        return "float32"
    return "bf16" if torch.get_autocast_dtype(device) == torch.bfloat16 else None
