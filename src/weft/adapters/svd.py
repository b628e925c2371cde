"""The largest singular values of a map and their vectors, from which some adapters start."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor
from torch.nn import functional as F

from weft.utils.seeding import generator
from weft.utils.threads import PerThread

OVERSAMPLED = 16
"""How many more vectors than needed are iterated; the last ones converge slowly."""

ITERATIONS = 16
"""How often they are multiplied by W·Wᵀ. On 768×768 the errors of the 16 largest are then below those of the
fast initialization that PEFT recommends, which takes as many."""


class _Loading(PerThread):
    """Whether this thread builds a model whose factors a file will replace."""

    def __init__(self) -> None:
        self.factors = False


_loading = _Loading()


@contextmanager
def factors_from_files() -> Iterator[None]:
    """Inside, `top_singular` returns zeros, which cost nothing: the model's files hold the factors."""
    before, _loading.factors = _loading.factors, True
    try:
        yield
    finally:
        _loading.factors = before


@torch.no_grad()
def top_singular(weight: Tensor, rank: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return U [o, r], σ [r] and Vᵀ [r, i] of the r largest singular values of a matrix: W ≈ U·diag(σ)·Vᵀ.

    A whole decomposition of a large map takes seconds on a CPU, so large maps are decomposed by subspace
    iteration (Halko et al., 2011) from a fixed random start: the result depends on the weight alone. The
    largest entry of each column of U is positive.

    Args:
        weight: [o, i].
        rank: r; beyond min(o, i) the rest is zero.
    """
    if _loading.factors:
        out_width, in_width = weight.shape
        return torch.zeros(out_width, rank), torch.zeros(rank), torch.zeros(rank, in_width)
    matrix = weight.detach().to("cpu", torch.float32)
    wide = rank + OVERSAMPLED
    if 2 * wide >= min(matrix.shape):
        left, values, right = torch.linalg.svd(matrix, full_matrices=False)
    else:
        draws = generator(0, "svd", str(matrix.size(1)))
        basis = torch.linalg.qr(matrix @ torch.randn(matrix.size(1), wide, generator=draws)).Q  # [o, wide]
        for _ in range(ITERATIONS):
            basis = torch.linalg.qr(matrix @ torch.linalg.qr(matrix.T @ basis).Q).Q
        inner, values, right = torch.linalg.svd(basis.T @ matrix, full_matrices=False)
        left = basis @ inner
    left, values, right = left[:, :rank], values[:rank], right[:rank]
    sign = left.gather(0, left.abs().argmax(0, keepdim=True)).sign()  # [1, r]
    left, right = left * sign, right * sign.T
    missing = rank - values.numel()
    if missing:
        left = F.pad(left, (0, missing))
        values = F.pad(values, (0, missing))
        right = F.pad(right, (0, 0, 0, missing))
    return left, values, right
