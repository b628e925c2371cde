"""`top_attention`: a stack of projected attention layers on top of the encoder (PALs, section 3.2)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from pydantic import Field, NonNegativeFloat, PositiveInt

from weft.methods.method import Printed
from weft.methods.task_function import Heads, PalsMethod

if TYPE_CHECKING:
    from weft.adapters.adapter import Adapter
    from weft.encoder.sites import Site, Sites


class TopAttention(PalsMethod):
    """V_D·g_6(… g_1(V_E·h)) in the place of the last hidden states h, g(x) = LN(x + W^o·MH(x)).

    No residual goes around the whole, so that no start is the base's.
    """

    name = "top_attention"
    starts_at_base = False
    d_s: PositiveInt = Field(204, description="the width of the task's own small space, the paper's d_s")
    depth: PositiveInt = Field(6, description="how many layers; the paper tries 3, 6 and 12")
    heads: Heads = Field(12, description="attention heads, a divisor of d_s; the code has 12")
    residual: bool = Field(True, description="whether each layer adds its input; crucial, the paper says")
    norm: bool = Field(True, description="whether each layer is normed; crucial, the paper says")
    dropout: NonNegativeFloat = Field(0.1, lt=1, description="on each layer's result, in training")
    attention_dropout: NonNegativeFloat = Field(
        0.1, lt=1, description="on the attention's weights, in training"
    )

    @property
    def printed_ratio(self) -> Printed | None:
        """Table 3 prints 1.10 for six layers."""
        told = (self.d_s, self.depth, self.norm, self.pooler)
        return Printed(1.10, "Table 3 prints 1.10x") if told == (204, 6, True, "shared") else None

    def adapters(self, sites: Sites, tasks: Sequence[str], seed: int) -> Iterator[tuple[Site, Adapter]]:
        """One `TopStack` of attentions."""
        from weft.adapters.attention import StackedAttention
        from weft.adapters.projected import Projection
        from weft.adapters.top import ResidualLayer, TopStack
        from weft.routing import Slots

        own = Slots.per_task(tasks)
        for site in sites.select(["top"]):
            layers = []
            for number in range(self.depth):
                attention = StackedAttention(
                    self.d_s,
                    self.heads,
                    own,
                    seed,
                    f"top/{number}",
                    output=True,
                    dropout=self.attention_dropout,
                    name=f"top/{number}",
                )
                layers.append(ResidualLayer(self.d_s, attention, own, self.residual, self.norm, self.dropout))
            yield site, TopStack(site, Projection(sites.width, self.d_s, own, seed, "top"), layers)
