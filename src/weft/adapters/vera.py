"""VeRA: random factors for all layers and tasks, scaled by two vectors per task (Kopiczko et al., 2024)."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor, nn

from weft.adapters.ranked import RankedAdapter
from weft.core.route import Route
from weft.core.stacked import Slots
from weft.encoder.sites import LINEAR, Site
from weft.kernels.dispatch import add
from weft.kernels.dropout import dropped
from weft.utils.counter_rng import draw_key, half_bits


class RandomFactors(nn.Module):
    """A [r, i] and B [o, r], kaiming-uniform: in ±√(6/i) and ±√(6/r).

    They are drawn in integer arithmetic from a seed and their shape, so that every machine and every version
    of torch draws the same. Therefore no file holds them: they are buffers that are not saved.

    Args:
        in_width: i.
        out_width: o.
        rank: r.
        seed: the seed of the draws.
    """

    def __init__(self, in_width: int, out_width: int, rank: int, seed: int) -> None:
        super().__init__()
        for name, shape in (("A", (rank, in_width)), ("B", (out_width, rank))):
            value = torch.empty(shape)  # on the device that the model is built on
            if not value.is_meta:
                value.copy_(_drawn(shape, draw_key(seed, "vera", name, in_width, out_width, rank)))
            self.register_buffer(name, value, persistent=False)


def _drawn(shape: tuple[int, int], key: np.ndarray) -> Tensor:
    """Uniform numbers in ±√(6/columns) with 24 random bits each, on the CPU."""
    bits = half_bits(key, 0, math.prod(shape)) >> np.uint32(8)
    unit = bits.astype(np.float32) * np.float32(2**-23) - np.float32(1)  # [−1, 1)
    return torch.from_numpy(unit.reshape(shape) * np.float32(math.sqrt(6 / shape[1])))


class VeraAdapter(RankedAdapter):
    """y = W·x + b + v_t∘(B·(d_t∘(A·dropout(x)))), with random A and B that do not train.

    d [S, r] starts at a small constant, v [S, o] (the paper's b) at zero, so the initial model equals the
    base exactly.

    Args:
        site: a linear site, [R, L, i] → [R, L, o].
        slots: the slots of d and v.
        factors: A and B, which other sites of the same shape use too.
        rank: r.
        start: the initial value of d.
        dropout: dropout probability of x, in training.
    """

    fits = LINEAR

    def __init__(
        self, site: Site, slots: Slots, factors: RandomFactors, rank: int, start: float, dropout: float
    ) -> None:
        super().__init__(site, rank, None, slots)
        self.dropout = dropout
        self.factors = factors
        self.stack("d", (rank,), slots, "weight")
        self.stack("v", (site.out_width,), slots, "weight")
        nn.init.constant_(self.get_parameter("d"), start)
        nn.init.zeros_(self.get_parameter("v"))

    def forward(self, x: Tensor, route: Route) -> Tensor:
        """x [R, L, i] → the term [R, L, o]."""
        x = dropped(x, self.dropout, self)
        down, up = self.factors.get_buffer("A")[None], self.factors.get_buffer("B")[None]
        term = self.pair(x, route, down, up, "d", self.get_parameter("d"))
        return term * self.take("v", route)[:, None].to(term.dtype)

    def add_to(self, y: Tensor, x: Tensor, route: Route) -> Tensor:
        """y and the term, [R, L, o]."""
        return add(y, self(x, route))

    def width(self, slot: int) -> int:
        """See `RankedAdapter`: all components are those of the factors, and none is padding."""
        return self.rank

    def is_wide(self) -> bool:
        """See `Adapter`: r·(i + o) products per token, against i·o of a merged weight."""
        wide, narrow = self.site.in_width, self.site.out_width
        return 2 * self.rank * (wide + narrow) > wide * narrow

    def weight_delta(self, task: int) -> tuple[Tensor, None]:
        """ΔW = diag(v_t)·B·diag(d_t)·A, [o, i]."""
        up = self.slot("v", task)[:, None] * self.factors.get_buffer("B")
        return up * self.slot("d", task) @ self.factors.get_buffer("A"), None

    def low_rank_delta(self, task: int) -> tuple[Tensor, Tensor]:
        """diag(v_t)·B·diag(d_t) and A, [o, r] and [r, i]; ΔW and the identity if i is less than r."""
        if self.site.in_width < self.rank:
            delta, _ = self.weight_delta(task)
            return delta, torch.eye(self.site.in_width, device=delta.device)
        up = self.slot("v", task)[:, None] * self.factors.get_buffer("B")
        return up * self.slot("d", task), self.factors.get_buffer("A")
