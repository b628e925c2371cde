"""Operators of torch that its converter to ONNX does not know, or converts to more than is needed."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch


def translations() -> dict[Any, Callable[..., Any]]:
    """The argument `custom_translation_table` of `torch.onnx.export`."""
    return {
        torch.ops.aten.sort.stable: _stable_sort,
        torch.ops.aten.scaled_dot_product_attention.default: _attention,
    }


def _stable_sort(x: Any, stable: bool = False, dim: int = -1, descending: bool = False) -> Any:
    """Sort by TopK of all elements: ONNX defines that of two equal ones the first comes first."""
    from onnxscript import opset20 as op

    size = op.Gather(op.Shape(x), op.Constant(value_ints=[dim]))  # [1]
    return op.TopK(x, size, axis=dim, largest=int(descending), sorted=1)


LOWEST = -1e30
"""Added to scores of tokens that are masked: exp gives exactly 0, and rows without any token stay finite."""


def _attention(
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Any:
    """softmax(scale·Q·Kᵀ + mask)·V, [R, H, L, d] each; the mask is boolean or a term, [R or 1, H or 1, L, L].

    PyTorch's own translation also looks for rows that are masked completely, which reads all scores twice
    more, and transposes keys by way of a flat shape.
    """
    from onnxscript import opset20 as op
    from onnxscript.ir import DataType

    if is_causal or dropout_p:
        raise ValueError(
            "causal attention and dropout have no translation: encoders in eval mode use neither"
        )
    if enable_gqa:
        key, value = (_repeated(each, query.shape[1]) for each in (key, value))
    factor = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    scores = op.MatMul(op.Mul(query, op.Constant(value_float=factor)), op.Transpose(key, perm=[0, 1, 3, 2]))
    if attn_mask is not None:
        if attn_mask.dtype == DataType.BOOL:
            attn_mask = op.Where(attn_mask, op.Constant(value_float=0.0), op.Constant(value_float=LOWEST))
        scores = op.Add(scores, attn_mask)
    return op.MatMul(op.Softmax(scores, axis=-1), value)


def _repeated(x: Any, heads: int) -> Any:
    """[R, h, L, d] → [R, H, L, d]: each of the h heads, shared by H/h heads of the queries, that often."""
    from onnxscript import opset20 as op

    shared, width = x.shape[1], x.shape[3]
    if shared == heads:
        return x
    grouped = op.Unsqueeze(x, op.Constant(value_ints=[2]))
    grouped = op.Expand(grouped, op.Constant(value_ints=[1, 1, heads // shared, 1, 1]))
    return op.Reshape(grouped, op.Constant(value_ints=[0, heads, -1, width]))
