"""The precision of forward passes."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from typing import TYPE_CHECKING, Literal, get_args

from weft.errors import WeftError

if TYPE_CHECKING:
    from weft.model.model import Model

Precision = Literal["float32", "bf16"]
PRECISIONS: tuple[str, ...] = get_args(Precision)

PassContext = Callable[[], AbstractContextManager[object]]
"""Makes the context manager that a pass runs inside, such as autocast."""


def checked_precision(precision: str) -> Precision:
    """Return the precision; an unknown name is an error."""
    if precision not in PRECISIONS:
        raise WeftError(f"precision {precision!r}: expected {' or '.join(PRECISIONS)}")
    return precision  # type: ignore[return-value]


def precision_context(model: Model, precision: str | None) -> PassContext | None:
    """Return what makes the context of passes in this precision, or None. An unknown name is an error."""
    if precision is None:
        return None
    import torch

    bf16 = checked_precision(precision) == "bf16"
    return partial(torch.autocast, next(model.parameters()).device.type, torch.bfloat16, enabled=bf16)


def precision_now(model: Model) -> Precision | None:
    """Return the precision that a pass would have here; None for one that is never captured (float16)."""
    import torch

    device = next(model.parameters()).device.type
    if not torch.is_autocast_enabled(device):
        return "float32"
    return "bf16" if torch.get_autocast_dtype(device) == torch.bfloat16 else None
