"""LoRA: a low-rank update of a linear map (Hu et al., 2021)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from weft.adapters.ranked import RankedAdapter
from weft.core.route import Route
from weft.core.stacked import Slots
from weft.encoder.sites import LINEAR, Site
from weft.kernels.dropout import dropped
from weft.kernels.joined import Components, joins, own_slot

if TYPE_CHECKING:
    from weft.core.gate_settings import L0


class LoraAdapter(RankedAdapter):
    """y = W·x + b + s·B_t·(z_t ∘ A_t·dropout(x)), with the slot t of the row's task; z are gates, if any.

    A [S, r, i] starts kaiming-uniform, B [S, o, r] at zero, so the initial model equals the base exactly.

    Args:
        site: a linear site, [R, L, i] → [R, L, o].
        slots: the slots of A, B and the gates.
        rank: r.
        scale: s, LoRA's α/r.
        dropout: dropout probability of x, in training.
        seed: the random seed of A's initial values.
        l0: settings of the gates on the components; None: no gates.
        lr_ratio: the learning rate of B divided by that of A.
    """

    fits = LINEAR
    along = {"A": (0,), "B": (1,)}  # noqa: RUF012  (declared as ClassVar in RankedAdapter)
    absorbs = ("B",)

    def __init__(
        self,
        site: Site,
        slots: Slots,
        rank: int,
        scale: float,
        dropout: float,
        seed: int,
        l0: L0 | None = None,
        lr_ratio: float = 1.0,
    ) -> None:
        super().__init__(site, rank, l0, slots)
        self.scale = scale
        self.dropout = dropout
        self.stack("A", (rank, site.in_width), slots, "weight")
        self.stack("B", (site.out_width, rank), slots, "weight", rate=lr_ratio)
        self.start("A", lambda t, g: nn.init.kaiming_uniform_(t, math.sqrt(5), generator=g), seed, site.key)
        nn.init.zeros_(self.get_parameter("B"))

    def forward(self, x: Tensor, route: Route) -> Tensor:
        """x [R, L, i] → the term [R, L, o]."""
        return self._update(x, route, None)

    def add_to(self, y: Tensor, x: Tensor, route: Route) -> Tensor:
        """y and the term, [R, L, o]."""
        return self._update(x, route, y)

    def maps(self) -> tuple[Tensor, Tensor]:
        """The map down and the map up of every slot without gates and scale, [S, k, i] and [S, o, k]."""
        return self.get_parameter("A"), self.get_parameter("B")

    def _update(self, x: Tensor, route: Route, onto: Tensor | None) -> Tensor:
        x = dropped(x, self.dropout, self)
        down, up = self.maps()
        return self.pair(x, route, down, up, "A", self.gate_values(), self.scale, onto)

    def can_join(self) -> bool:
        """See `Adapter`: not with dropout, because each map then reads x under a different mask."""
        down, _ = self.maps()
        return self.dropout == 0 and joins(down.size(0), down.size(1), self.site.in_width, down.device)

    def components(self, route: Route) -> Components:
        """See `Adapter`: the components of all slots, of which a row keeps those of its slot."""
        every_down, every_up = self.maps()
        down, mix = self.mixed(every_down, "A", route)
        up, _ = self.mixed(every_up, "A", route)
        slots, rank = down.shape[:2]
        if mix is None:
            keep = down.new_full((1, rank), self.scale)
        else:
            keep = own_slot(mix.slot, slots, down.dtype).repeat_interleave(rank, 1) * self.scale
        z = self.gate_values()  # [S, r]
        if z is not None:
            keep = keep * self.mixed(z, "A", route)[0].reshape(1, slots * rank)
        return Components(keep, up.transpose(0, 1).flatten(1), down.flatten(0, 1))

    def low_rank_delta(self, task: int) -> tuple[Tensor, Tensor] | None:
        """s·B and A, [o, k] and [k, i], shut components left out."""
        kept = self.live_for(task)
        up, down = self.absorbed("B", task) * self.scale, self.slot("A", task)
        return up.index_select(1, kept), down.index_select(0, kept)

    def weight_delta(self, task: int) -> tuple[Tensor, None]:
        """ΔW = s·B·A, [o, i]."""
        return self.absorbed("B", task) @ self.slot("A", task) * self.scale, None

    def inner_products(self) -> tuple[Tensor | None, Tensor | None] | None:
        """⟨B_s·A_s, B_t·A_t⟩ = Σ (B_sᵀ·B_t ∘ A_s·A_tᵀ), [T, T]."""
        tasks = range(len(self.stacks["A"].slots.of_task))
        up = torch.stack([self.absorbed("B", t) * self.scale for t in tasks])  # [T, o, r]
        down = torch.stack([self.slot("A", t) for t in tasks])  # [T, r, i]
        left = torch.einsum("sop,toq->stpq", up, up)
        right = torch.einsum("spi,tqi->stpq", down, down)
        return (left * right).sum((2, 3)), None
