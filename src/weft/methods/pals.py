"""`pals`: projected attention layers in parallel to the encoder's (Cooper Stickland and Murray, 2019)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Literal

from pydantic import Field, NonNegativeFloat, PositiveInt

from weft.methods.method import Printed
from weft.methods.task_function import (
    SHARE,
    BesideBlocks,
    Heads,
    Projections,
    ShareProjections,
    block_attention,
)

if TYPE_CHECKING:
    from weft.adapters.adapter import Adapter
    from weft.adapters.attention import StackedAttention
    from weft.encoder.sites import Site, Sites


class Pals(BesideBlocks):
    """h' = LN(FFN(a) + a + TS(h)), TS(h) = gelu(V_D·MH(V_E·h)), a the block's stream after its attention.

    TS reads the block's input and is added to its last residual only, as in the authors' code. In a pre-norm
    encoder TS reads the input of the block's attention, norm_1(h), and is added to the residual stream:
    h' = a + FFN(norm_2(a)) + TS(norm_1(h)). MH has no W^o; there is one q, k and v per task and layer. With
    `inside: ffn` a small feed-forward network replaces MH.
    """

    name = "pals"
    attends = True
    d_s: PositiveInt = Field(204, description="the width of the projected space, the paper's d_s")
    inside: Literal["attention", "ffn"] = Field("attention", description="g: attention, or a small network")
    heads: Heads = Field(6, description="attention heads, a divisor of d_s; the code has 6")
    inner: PositiveInt = Field(306, description="the hidden width of `inside: ffn`")
    after: Literal["auto", "gelu", "identity"] = Field(
        "auto",
        description="activation after V_D; auto: gelu for attention (the code), identity for ffn (the paper)",
    )
    share: ShareProjections = Field("layers", description=SHARE)
    attention_dropout: NonNegativeFloat = Field(
        0.1, lt=1, description="dropout probability of the attention weights, in training"
    )

    def printed(self, num_layers: int) -> Printed | None:
        """Table 3 prints 1.13 for the four settings it tries: all layers, and the top or the bottom half."""
        blocks = self.blocks(num_layers)
        if blocks is None or self.inside != "attention":
            return None
        half = blocks in (list(range(6)), list(range(6, 12)))
        tried = (self.share, self.d_s) in {("layers", 204), ("none", 84)} and blocks == list(range(12))
        halves = half and (self.share, self.d_s) == ("layers", 276)
        return Printed(1.13, "Table 3 prints 1.13x") if tried or halves else None

    def adapters(self, sites: Sites, tasks: Sequence[str], seed: int) -> Iterator[tuple[Site, Adapter]]:
        """A projected function at each block."""
        from weft.adapters.feed_forward import StackedFeedForward
        from weft.adapters.projected import Projected
        from weft.core.stacked import Slots

        slots = Slots.per_task(tasks)
        pairs = Projections(self.share, sites.width, self.d_s, tasks, seed, self.zero_init)
        after = self.after if self.after != "auto" else "gelu" if self.inside == "attention" else "identity"
        for site in self.sites(sites):
            inside: StackedAttention | StackedFeedForward
            if self.inside == "attention":
                inside = block_attention(self.d_s, self.heads, self.attention_dropout, slots, seed, site)
            else:
                inside = StackedFeedForward(self.d_s, [self.inner], slots, seed, f"{site.key}/ffn")
            function = Projected(pairs.at(site), inside, after, self.amplitude(sites, tasks))
            yield self.connected(function, site, sites, tasks)
