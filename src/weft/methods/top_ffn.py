"""`top_ffn`: a stack of projected feed-forward layers on top of the encoder (PALs, section 3.2)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import Field, PositiveInt

from weft.methods.method import Printed
from weft.methods.top_stack import TopStackMethod

if TYPE_CHECKING:
    from weft.adapters.top import Sublayer
    from weft.core.stacked import Slots

INNER = {1: 408, 2: 252}
"""The hidden widths at which a layer of d_s 204 has as many weights as an attention layer."""


class TopFfn(TopStackMethod):
    """V_D·g_6(… g_1(V_E·h)) replaces the last hidden states h, g(x) = LN(x + FFN(x)).

    There is no residual around the whole stack, so it never starts at the base.
    """

    name = "top_ffn"
    hidden_layers: Literal[1, 2] = Field(1, description="how many hidden layers each network has")
    inner: PositiveInt | None = Field(
        None, description="their width; by default 408 for one and 252 for two, as in the paper"
    )

    def printed(self, num_layers: int) -> Printed | None:
        """Table 3 prints 1.10 for six layers of one hidden layer."""
        settings = (self.d_s, self.depth, self.hidden_layers, self.inner or 408, self.residual, self.norm)
        plain = settings == (204, 6, 1, 408, True, True) and self.pooler == "shared"
        return Printed(1.10, "Table 3 prints 1.10x") if plain else None

    def sublayer(self, number: int, slots: Slots, seed: int) -> Sublayer:
        """A network of one hidden layer or two."""
        from weft.adapters.feed_forward import StackedFeedForward

        widths = [self.inner or INNER[self.hidden_layers]] * self.hidden_layers
        return StackedFeedForward(self.d_s, widths, slots, seed, f"top/{number}")
