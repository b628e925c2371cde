"""`top_layer`: one whole encoder layer per task on top of the encoder (PALs, section 3.2)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from pydantic import Field, NonNegativeFloat, PositiveInt

from weft.methods.method import Printed
from weft.methods.task_function import PalsMethod

if TYPE_CHECKING:
    from weft.adapters.adapter import Adapter
    from weft.encoder.sites import Site, Sites


class TopLayer(PalsMethod):
    """LN(a + FFN(a)), a = LN(h + W^o·MH(h)), replaces the last hidden states h.

    In every family it is a layer of BERT's form with the encoder's width, heads and feed-forward width. It
    never starts at the base.
    """

    name = "top_layer"
    starts_at_base = False
    attends = True
    heads: PositiveInt | None = Field(None, description="attention heads; by default the encoder's")
    inner: PositiveInt | None = Field(None, description="feed-forward width; by default the encoder's")
    dropout: NonNegativeFloat = Field(
        0.1, lt=1, description="dropout probability of each sub-layer's result, in training"
    )
    attention_dropout: NonNegativeFloat = Field(
        0.1, lt=1, description="dropout probability of the attention weights, in training"
    )

    def printed(self, num_layers: int) -> Printed | None:
        """Table 3 prints 1.66, the text 1.67 and 73 million: neither follows from a BERT layer's size."""
        if (self.heads, self.inner, self.pooler) != (None, None, "shared"):
            return None
        return Printed(
            1.66,
            "Table 3 prints 1.66x, section 3.2 1.67x and 73 million: an error, for eight layers of 7,087,872 "
            "are 56.7 million, 1.518x",
        )

    def adapters(self, sites: Sites, tasks: Sequence[str], seed: int) -> Iterator[tuple[Site, Adapter]]:
        """One `TopLayer`."""
        from weft.adapters.attention import StackedAttention
        from weft.adapters.feed_forward import StackedFeedForward
        from weft.adapters.top import TopLayer as TopLayerAdapter
        from weft.core.stacked import Slots

        slots = Slots.per_task(tasks)
        inner = self.inner or sites.select(["ffn_out"], [0])[0].in_width
        for site in sites.select(["top"]):
            attention = StackedAttention(
                sites.width,
                self.heads or sites.heads,
                slots,
                seed,
                "top/attention",
                output=True,
                dropout=self.attention_dropout,
                name="top/0",
            )
            feed_forward = StackedFeedForward(sites.width, [inner], slots, seed, "top/ffn")
            yield site, TopLayerAdapter(site, attention, feed_forward, slots, self.dropout)
