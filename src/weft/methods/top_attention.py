"""`top_attention`: a stack of projected attention layers on top of the encoder (PALs, section 3.2)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field, NonNegativeFloat

from weft.methods.method import Printed
from weft.methods.task_function import Heads
from weft.methods.top_stack import TopStackMethod

if TYPE_CHECKING:
    from weft.adapters.top import Sublayer
    from weft.core.stacked import Slots


class TopAttention(TopStackMethod):
    """V_D·g_6(… g_1(V_E·h)) replaces the last hidden states h, g(x) = LN(x + W^o·MH(x)).

    There is no residual around the whole stack, so it never starts at the base.
    """

    name = "top_attention"
    attends = True
    heads: Heads = Field(12, description="attention heads, a divisor of d_s; the code has 12")
    attention_dropout: NonNegativeFloat = Field(
        0.1, lt=1, description="dropout probability of the attention weights, in training"
    )

    def printed(self, num_layers: int) -> Printed | None:
        """Table 3 prints 1.10 for six layers."""
        settings = (self.d_s, self.depth, self.residual, self.norm, self.pooler)
        return Printed(1.10, "Table 3 prints 1.10x") if settings == (204, 6, True, True, "shared") else None

    def sublayer(self, number: int, slots: Slots, seed: int) -> Sublayer:
        """An attention with its W^o."""
        from weft.adapters.attention import StackedAttention

        place = f"top/{number}"
        return StackedAttention(
            self.d_s, self.heads, slots, seed, place, output=True, dropout=self.attention_dropout, name=place
        )
