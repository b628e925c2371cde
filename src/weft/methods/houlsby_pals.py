"""`houlsby_pals`: low-rank adapters at the attention, projected attention at the feed-forward part."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from pydantic import Field, NonNegativeFloat, PositiveInt

from weft.methods.method import LAYERS, Layers
from weft.methods.task_function import (
    SHARE,
    Heads,
    Projections,
    ShareProjections,
    ZeroInitMethod,
    block_attention,
)

if TYPE_CHECKING:
    from weft.adapters.adapter import Adapter
    from weft.encoder.sites import Site, Sites


class HoulsbyPals(ZeroInitMethod):
    """a + LR(a) on the attention's output a, FFN(x) + PAL(x) in parallel to the feed-forward part.

    This is `houlsby_plus_pals` of the authors' code. PAL(x) = gelu(V_D·MH(V_E·x)) reads the input of the
    feed-forward part (the output of norm_2 in a pre-norm encoder). There is one LR(a) = V_D·gelu(V_E·a) per
    layer and task.
    """

    name = "houlsby_pals"
    attends = True
    d_s: PositiveInt = Field(156, description="the width of the projected attention's space")
    attention_d_s: PositiveInt = Field(50, description="the width of the low-rank function at the attention")
    heads: Heads = Field(6, description="attention heads, a divisor of d_s; the code has 6")
    share: ShareProjections = Field("layers", description=f"of the projected attention, {SHARE}")
    layers: Layers = Field("all", description=LAYERS)
    attention_dropout: NonNegativeFloat = Field(
        0.1, lt=1, description="dropout probability of the attention weights, in training"
    )

    def adapters(self, sites: Sites, tasks: Sequence[str], seed: int) -> Iterator[tuple[Site, Adapter]]:
        """A low-rank function and a projected attention in each block."""
        from weft.adapters.connection import ParallelAdapter, ResidualAdapter
        from weft.adapters.projected import Projected
        from weft.core.stacked import Slots

        slots = Slots.per_task(tasks)
        low = Projections(
            "none", sites.width, self.attention_d_s, tasks, seed, self.zero_init, name="_attention"
        )
        pal = Projections(self.share, sites.width, self.d_s, tasks, seed, self.zero_init, name="_ffn")
        for site in sites.select(["attention_delta"], self.layers):
            yield site, ResidualAdapter(site, Projected(low.at(site), "gelu"))
        for site in sites.select(["ffn_delta"], self.layers):
            attention = block_attention(self.d_s, self.heads, self.attention_dropout, slots, seed, site)
            yield site, ParallelAdapter(site, Projected(pal.at(site), attention, "gelu"), "ffn_input")
