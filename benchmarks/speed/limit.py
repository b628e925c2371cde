"""The arithmetic limit: an encoder's matrix products at the rate of one large product on the same device.

With P the weights of the linear maps of the blocks, n tokens, rows of length L, width d and N blocks:

    forward               2·P·n + 4·L·d·N·n     (products with weights; scores and their mix of values)
    gradients of inputs   2·P·n + 8·L·d·N·n
    gradients of weights  2·P_trained·n

Heads, adapters, norms and the optimizer are left out: it is a bound from below, not a forecast.
"""

from __future__ import annotations

import statistics
import time
from typing import Any

import torch
from torch import nn

from benchmarks.speed.machine import synchronise
from weft.acceleration.compiled import blocks_of


def flops(encoder: Any, rows: int, length: int, backward: bool = False, trained: float = 0.0) -> float:
    """The floating-point operations of one pass.

    Args:
        encoder: a Hugging Face encoder.
        rows: R.
        length: L.
        backward: whether to count the inputs' gradients, which an adapter in the lowest block needs.
        trained: the share of the linear maps whose weight gradients are counted: 1 for `full`, 0 for `lora`.
    """
    blocks = blocks_of(encoder)
    linear = [m for block in blocks for m in block.modules() if isinstance(m, nn.Linear)]
    weights = sum(m.weight.numel() for m in linear)
    tokens = rows * length
    attention = 4 * length * encoder.config.hidden_size * len(blocks) * tokens
    forward = 2 * weights * tokens + attention
    if not backward:
        return float(forward)
    return float(forward + 2 * weights * tokens + 2 * attention + 2 * trained * weights * tokens)


def gemm_ceiling(device: torch.device, rounds: int = 7) -> float:
    """Operations per second in a large matrix product, in bf16 on a GPU and float32 on a CPU."""
    cuda = device.type == "cuda"
    size, dtype, inner = (8192, torch.bfloat16, 8) if cuda else (1536, torch.float32, 1)
    a = torch.randn(size, size, device=device, dtype=dtype)
    b = torch.randn(size, size, device=device, dtype=dtype)
    seconds = []
    for _ in range(rounds + 2):
        synchronise(device)
        start = time.perf_counter()
        for _ in range(inner):
            torch.matmul(a, b)
        synchronise(device)
        seconds.append((time.perf_counter() - start) / inner)
    # the median of the better half: the single best may be an outlier
    return 2 * size**3 / statistics.median(sorted(seconds[2:])[: (rounds + 1) // 2])
