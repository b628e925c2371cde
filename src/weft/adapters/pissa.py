"""PiSSA: a LoRA that starts as the largest singular components of its map (Meng et al., 2024)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from weft.adapters.lora import LoraAdapter
from weft.adapters.svd import top_singular
from weft.core.stacked import Slots
from weft.encoder.sites import LINEAR, Site


class PissaAdapter(LoraAdapter):
    """y = W·x + b + s·((B₀ + B_t)·(A₀ + A_t) − B₀·A₀)·dropout(x), s·B₀·A₀ the part of W of rank r.

    The paper reduces W by s·B₀·A₀ and trains B and A from B₀ and A₀. Here W is frozen and serves all tasks,
    so that part is subtracted in the term instead. A [S, r, i] and B [S, o, r] are the *changes* of A₀ and
    B₀; they start at zero and have the gradients of the paper's factors. The term is computed as
    s·[B_t, B₀]·[A₀ + A_t; A_t]·x, which is exactly zero at the start: the initial model equals the base
    exactly. Weight decay pulls the factors to their start, not to zero.

    B₀ = U·√(σ/s) [1, o, r] and A₀ = √(σ/s)·Vᵀ [1, r, i] are constant, shared by all tasks and saved with the
    model, as in `LoraXsAdapter`.

    Args:
        site: a linear site, [R, L, i] → [R, L, o].
        slots: the slots of A and B.
        shared: the slots of A₀ and B₀.
        rank: r.
        scale: s.
        dropout: dropout probability of x, in training.
        lr_ratio: the learning rate of B divided by that of A.
    """

    fits = LINEAR

    def __init__(
        self,
        site: Site,
        slots: Slots,
        shared: Slots,
        rank: int,
        scale: float,
        dropout: float,
        lr_ratio: float = 1.0,
    ) -> None:
        super().__init__(site, slots, rank, scale, dropout, 0, None, lr_ratio)
        self.stack("A0", (rank, site.in_width), shared, "weight", constant=True)
        self.stack("B0", (site.out_width, rank), shared, "weight", constant=True)
        for name in self.stacks:
            nn.init.zeros_(self.get_parameter(name))

    @torch.no_grad()
    def bind_map(self, module: nn.Linear) -> None:
        """Compute A₀ and B₀ from the site's rows of the map."""
        if module.weight.is_meta:
            return
        index, parts = self.site.part
        left, values, right = top_singular(module.weight.chunk(parts)[index], self.rank)
        root = (values / self.scale).sqrt()
        self.get_parameter("A0")[0].copy_(root[:, None] * right)
        self.get_parameter("B0")[0].copy_(left * root)

    def maps(self) -> tuple[Tensor, Tensor]:
        """[A₀ + A; A] and [B, B₀] of every slot, [S, 2r, i] and [S, o, 2r]."""
        a, b = self.get_parameter("A"), self.get_parameter("B")
        down = torch.cat([self.get_parameter("A0") + a, a], 1)
        return down, torch.cat([b, self.get_parameter("B0").expand_as(b)], 2)

    def low_rank_delta(self, task: int) -> tuple[Tensor, Tensor]:
        """s·[B, B₀] and [A₀ + A; A], [o, 2r] and [2r, i]."""
        slot = self.stacks["A"].slots.of_task[task]
        down, up = self.maps()
        return up[slot] * self.scale, down[slot]

    def weight_delta(self, task: int) -> tuple[Tensor, None]:
        """ΔW = s·((B₀ + B)·(A₀ + A) − B₀·A₀), [o, i]."""
        up, down = self.low_rank_delta(task)
        return up @ down, None

    def inner_products(self) -> tuple[Tensor | None, Tensor | None] | None:
        """See `Adapter`: from the whole updates."""
        return super(LoraAdapter, self).inner_products()
