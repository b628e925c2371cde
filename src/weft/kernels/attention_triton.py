"""The two kernels of `weft.kernels.attention`, in Triton.

A program of the forward handles some queries of one head of one row, and all its keys. A program of the
backward handles the whole head and walks over its queries. Tiles have B = 16, 32, 64 or 128 tokens, of which
the first L are the row's. Scores are computed in float32; products use the dtype of their inputs.
"""

from __future__ import annotations

from typing import Any

import triton
import triton.language as tl
from torch import Tensor

from weft.kernels.attention import MANY, SHORTEST

FORWARD = {16: (16, 1), 32: (32, 4), 64: (64, 4), 128: (64, 4)}
BACKWARD = {16: (16, 1), 32: (32, 4), 64: (64, 4), 128: (128, 8)}
"""B → (queries per program or iteration, warps per program)."""

AS_THEY_COME = ["length", "least", "mask_r", "mask_q", "mask_k"]
"""Arguments that kernels are not specialized for, whether or not they are multiples of 16."""


@triton.jit
def _mixed(x):
    """A hash of 32 bits, each of which depends on all bits of x: two rounds of a product and a shift."""
    x = x ^ (x >> 16)
    x = x * 0x21F0AAAD
    x = x ^ (x >> 15)
    x = x * 0x735A2D97
    return x ^ (x >> 15)


@triton.jit
def _kept(key, program, queries, keys, least, BLOCK: tl.constexpr):
    """Which probabilities are kept, [M, B]: those whose random number is at least `least`.

    The number is a hash, in three rounds, of its position and of two numbers, which are hashes of the key and
    of the program. After two rounds, numbers of positions a power of two apart are correlated. A generator
    that makes several numbers at a time would make them in threads that do not need them.
    """
    first = _mixed(_mixed(tl.load(key).to(tl.uint32)) + program.to(tl.uint32))
    second = _mixed(first ^ tl.load(key + 1).to(tl.uint32))
    x = (queries[:, None] * BLOCK + keys[None, :]).to(tl.uint32) ^ first
    x = (x ^ (x >> 16)) * 0x21F0AAAD
    x = x ^ second
    x = (x ^ (x >> 15)) * 0x735A2D97
    x = (x ^ (x >> 15)) * 0x2C1B3C6D
    return (x >> 1).to(tl.int32) >= least


@triton.jit
def _added(mask):
    """The mask times log₂ e; the lowest finite number stays finite, and −∞ stays −∞."""
    added = mask.to(tl.float32)
    low = tl.where(added == float("-inf"), added, tl.maximum(added, -2.3e38))
    return low * 1.4426950408889634


@triton.jit
def _probabilities(q, k, mask, queries, keys, length, mask_q, mask_k, scale, MASKED: tl.constexpr):
    """softmax(s·Q·Kᵀ + M), [M, B] in float32; 0 for keys beyond the row, and where no key is allowed."""
    scores = tl.dot(q, tl.trans(k), input_precision="ieee") * (scale * 1.4426950408889634)
    real = keys < length
    if MASKED == 1:
        scores += _added(tl.load(mask + keys * mask_k, mask=real, other=0.0))[None, :]
    if MASKED == 2:
        places = queries[:, None] * mask_q + keys[None, :] * mask_k
        inside = (queries < length)[:, None] & real[None, :]
        scores += _added(tl.load(mask + places, mask=inside, other=0.0))
    scores = tl.where(real[None, :], scores, float("-inf"))
    most = tl.max(scores, 1)
    most = tl.where(most == float("-inf"), 0.0, most)
    shares = tl.exp2(scores - most[:, None])
    total = tl.sum(shares, 1)
    return shares * (1.0 / tl.where(total == 0.0, 1.0, total))[:, None]


@triton.jit
def _places(row, head, tokens, by_row, by_head, by_token, WIDTH: tl.constexpr):
    """The offsets of some tokens of a head in memory, [M, w]."""
    return row * by_row + head * by_head + tokens[:, None] * by_token + tl.arange(0, WIDTH)[None, :]


@triton.jit(do_not_specialize=AS_THEY_COME)
def _forward(
    query, key, value, mask, seed, out,
    of_row, of_head, of_token, key_r, key_h, key_l, value_r, value_h, value_l,
    mask_r, mask_q, mask_k, heads, length, scale, least, rise,
    MASKED: tl.constexpr, DROPS: tl.constexpr, BLOCK: tl.constexpr, WIDTH: tl.constexpr, TAKEN: tl.constexpr,
):  # fmt: skip
    program = tl.program_id(0)
    row, head = (program // heads).to(tl.int64), program % heads
    keys = tl.arange(0, BLOCK)
    queries = tl.program_id(1) * TAKEN + tl.arange(0, TAKEN)
    real, valid = keys[:, None] < length, queries[:, None] < length
    q = tl.load(query + _places(row, head, queries, of_row, of_head, of_token, WIDTH), mask=valid, other=0.0)
    k = tl.load(key + _places(row, head, keys, key_r, key_h, key_l, WIDTH), mask=real, other=0.0)
    p = _probabilities(q, k, mask + row * mask_r, queries, keys, length, mask_q, mask_k, scale, MASKED)
    if DROPS:
        p = tl.where(_kept(seed, program, queries, keys, least, BLOCK), p * rise, 0.0)
    v = tl.load(value + _places(row, head, keys, value_r, value_h, value_l, WIDTH), mask=real, other=0.0)
    result = tl.dot(p.to(v.dtype), v, input_precision="ieee").to(v.dtype)
    wide = heads * WIDTH
    tl.store(out + _places(row, head, queries, length * wide, WIDTH, wide, WIDTH), result, mask=valid)


@triton.jit(do_not_specialize=AS_THEY_COME)
def _backward(
    grad, query, key, value, mask, seed, input_grads,
    of_row, of_head, of_token, key_r, key_h, key_l, value_r, value_h, value_l,
    mask_r, mask_q, mask_k, heads, length, scale, least, rise,
    MASKED: tl.constexpr, DROPS: tl.constexpr, BLOCK: tl.constexpr, WIDTH: tl.constexpr, TAKEN: tl.constexpr,
):  # fmt: skip
    program = tl.program_id(0)
    row, head = (program // heads).to(tl.int64), program % heads
    keys = tl.arange(0, BLOCK)
    real = keys[:, None] < length
    wide = heads * WIDTH
    k = tl.load(key + _places(row, head, keys, key_r, key_h, key_l, WIDTH), mask=real, other=0.0)
    v = tl.load(value + _places(row, head, keys, value_r, value_h, value_l, WIDTH), mask=real, other=0.0)
    of_key = tl.zeros((BLOCK, WIDTH), dtype=tl.float32)
    of_value = tl.zeros((BLOCK, WIDTH), dtype=tl.float32)
    for start in tl.static_range(0, BLOCK, TAKEN):
        queries = start + tl.arange(0, TAKEN)
        valid = queries[:, None] < length
        q = tl.load(
            query + _places(row, head, queries, of_row, of_head, of_token, WIDTH), mask=valid, other=0.0
        )
        g = tl.load(
            grad + _places(row, head, queries, length * wide, WIDTH, wide, WIDTH), mask=valid, other=0.0
        )
        p = _probabilities(q, k, mask + row * mask_r, queries, keys, length, mask_q, mask_k, scale, MASKED)
        of_p = tl.dot(g, tl.trans(v), input_precision="ieee")
        dropped = p
        if DROPS:
            kept = _kept(seed, program, queries, keys, least, BLOCK)
            of_p = tl.where(kept, of_p * rise, 0.0)
            dropped = tl.where(kept, p * rise, 0.0)
        of_value += tl.dot(tl.trans(dropped.to(g.dtype)), g, input_precision="ieee")
        # the gradient of the softmax: p · (dp − Σ p·dp)
        of_scores = (p * (of_p - tl.sum(p * of_p, 1)[:, None]) * scale).to(g.dtype)
        of_key += tl.dot(tl.trans(of_scores), q, input_precision="ieee")
        of_query = tl.dot(of_scores, k, input_precision="ieee").to(g.dtype)
        tl.store(
            input_grads + _places(row, head, queries, length * 3 * wide, WIDTH, 3 * wide, WIDTH),
            of_query,
            mask=valid,
        )
    places = _places(row, head, keys, length * 3 * wide, WIDTH, 3 * wide, WIDTH)
    tl.store(input_grads + wide + places, of_key.to(k.dtype), mask=real)
    tl.store(input_grads + 2 * wide + places, of_value.to(k.dtype), mask=real)


def forward(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    seed: Tensor,
    out: Tensor,
    dropout: float,
    scale: float,
) -> None:
    """Fill `out` [R, L, H, w]; see `weft.kernels.attention.attend`."""
    query, key, value = (_in_lines(x) for x in (query, key, value))
    numbers, kind = _settings(query, key, value, mask, dropout, scale)
    taken, warps = FORWARD[kind["BLOCK"]]
    programs = (query.size(0) * query.size(1), triton.cdiv(query.size(2), taken))
    tensors = (query, key, value, _or(mask, query), seed, out)
    _forward[programs](*tensors, *numbers, **kind, TAKEN=taken, num_warps=warps)


def backward(
    grad: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    seed: Tensor,
    input_grads: Tensor,
    dropout: float,
    scale: float,
) -> None:
    """Fill the gradients of queries, keys and values, [R, L, 3, H, w], from the output's, [R, L, H, w]."""
    query, key, value = (_in_lines(x) for x in (query, key, value))
    numbers, kind = _settings(query, key, value, mask, dropout, scale)
    taken, warps = BACKWARD[kind["BLOCK"]]
    tensors = (grad, query, key, value, _or(mask, query), seed, input_grads)
    _backward[(query.size(0) * query.size(1),)](*tensors, *numbers, **kind, TAKEN=taken, num_warps=warps)


def _settings(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, dropout: float, scale: float
) -> tuple[list[Any], dict[str, Any]]:
    """The arguments of both kernels (strides, sizes, dropout), and the constants they are compiled for."""
    _, heads, length, width = query.shape
    strides = [x.stride(axis) for x in (query, key, value) for axis in (0, 1, 2)]
    of_mask = [0, 0, 0]
    if mask is not None:
        of_mask = [0 if mask.size(axis) == 1 else mask.stride(axis) for axis in (0, 2, 3)]
    masked = 0 if mask is None else 1 if of_mask[1] == 0 else 2
    least = min(round(dropout * MANY), MANY - 1)
    numbers = [*strides, *of_mask, heads, length, scale, least, MANY / (MANY - least)]
    block = max(SHORTEST, triton.next_power_of_2(length))
    return numbers, {"MASKED": masked, "DROPS": least > 0, "BLOCK": block, "WIDTH": width}


def _in_lines(x: Tensor) -> Tensor:
    """Return x with the last dimension contiguous."""
    return x if x.stride(-1) == 1 else x.contiguous()


def _or(mask: Tensor | None, other: Tensor) -> Tensor:
    """Return the mask, or any tensor in its place: a pointer that the kernel does not read."""
    return other if mask is None else mask
