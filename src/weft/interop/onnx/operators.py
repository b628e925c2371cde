"""Operators of torch that its converter to ONNX does not know."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch


def translations() -> dict[Any, Callable[..., Any]]:
    """The argument `custom_translation_table` of `torch.onnx.export`."""
    return {torch.ops.aten.sort.stable: _stable_sort}


def _stable_sort(x: Any, stable: bool = False, dim: int = -1, descending: bool = False) -> Any:
    """Sort by TopK of all elements: ONNX defines that of two equal ones the first comes first."""
    from onnxscript import opset20 as op

    size = op.Gather(op.Shape(x), op.Constant(value_ints=[dim]))  # [1]
    return op.TopK(x, size, axis=dim, largest=int(descending), sorted=1)
