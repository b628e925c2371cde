"""MTL-LoRA: one LoRA for all tasks, with a small matrix and mixing weights per task (Yang et al., 2024)."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from weft.adapters.cored import CoredAdapter
from weft.adapters.stacked import uniform
from weft.core.stacked import Slots
from weft.encoder.sites import Site


class MtlLoraAdapter(CoredAdapter):
    """y = W·x + b + s·Σ_i p_ti·B_i·Λ_t·A·dropout(x), p_t = softmax(w_t/τ).

    All tasks share A [1, r, i] and the n maps B [1, n, o, r]; Λ [S, r, r] and w [S, n] have one entry per
    task. It is computed with one core per task, the n matrices s·p_ti·Λ_t one below the other [n·r, r],
    between A and [B_1, …, B_n].

    A starts kaiming-uniform, B at zero, so the initial model equals the base exactly, and Λ at the identity.
    w starts uniform in ±1/√n, as in the authors' code: with equal weights all B_i would stay equal.

    Args:
        site: a linear site, [R, L, i] → [R, L, o].
        shared: the slots of A and B.
        per_task: the slots of Λ and w.
        rank: r.
        maps: n, the number of maps B_i.
        temperature: τ.
        scale: s.
        dropout: dropout probability of x, in training.
        seed: the random seed of the initial values of A and w.
    """

    by = "w"
    along = {"A": (0,), "B": (2,), "L": (0, 1)}  # noqa: RUF012  (declared as ClassVar in RankedAdapter)

    def __init__(
        self,
        site: Site,
        shared: Slots,
        per_task: Slots,
        rank: int,
        maps: int,
        temperature: float,
        scale: float,
        dropout: float,
        seed: int,
    ) -> None:
        super().__init__(site, rank, None, shared)
        self.temperature = temperature
        self.scale = scale
        self.dropout = dropout
        self.stack("A", (rank, site.in_width), shared, "weight")
        self.stack("B", (maps, site.out_width, rank), shared, "weight")
        self.stack(
            "L", (rank, rank), per_task, "norm"
        )  # no decay: it would pull to zero, not to the identity
        self.stack("w", (maps,), per_task, "bias")
        self.start("A", lambda t, g: nn.init.kaiming_uniform_(t, math.sqrt(5), generator=g), seed, site.key)
        nn.init.zeros_(self.get_parameter("B"))
        self.start("L", identity, seed, site.key)
        self.start("w", uniform(maps), seed, site.key)

    def down(self) -> Tensor:
        """A, [r, i]."""
        return self.get_parameter("A")[0]

    def up(self) -> Tensor:
        """[B_1, …, B_n], [o, n·r]."""
        return self.get_parameter("B")[0].transpose(0, 1).flatten(1)

    def cores(self) -> Tensor:
        """s·p_ti·Λ_t of every task, one below the other, [S, n·r, r]."""
        shares = (self.get_parameter("w").float() / self.temperature).softmax(-1) * self.scale  # [S, n]
        return (shares[:, :, None, None] * self.get_parameter("L")[:, None]).flatten(1, 2)


def identity(value: Tensor, generator: torch.Generator) -> None:
    """Fill a square matrix; `nn.init.eye_` would fail if its device is not the default device."""
    value.zero_().fill_diagonal_(1.0)
