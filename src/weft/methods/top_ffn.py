"""`top_ffn`: a stack of projected feed-forward layers on top of the encoder (PALs, section 3.2)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Literal

from pydantic import Field, NonNegativeFloat, PositiveInt

from weft.methods.method import Printed
from weft.methods.task_function import PalsMethod

if TYPE_CHECKING:
    from weft.adapters.adapter import Adapter
    from weft.encoder.sites import Site, Sites

INNER = {1: 408, 2: 252}
"""The hidden widths that give a layer of d_s 204 as many weights as an attention has."""


class TopFfn(PalsMethod):
    """V_D·g_6(… g_1(V_E·h)) in the place of the last hidden states h, g(x) = LN(x + FFN(x)).

    No residual goes around the whole, so that no start is the base's.
    """

    name = "top_ffn"
    starts_at_base = False
    d_s: PositiveInt = Field(204, description="the width of the task's own small space, the paper's d_s")
    depth: PositiveInt = Field(6, description="how many layers")
    hidden_layers: Literal[1, 2] = Field(1, description="how many hidden layers each network has")
    inner: PositiveInt | None = Field(
        None, description="their width; by default 408 for one and 252 for two, as in the paper"
    )
    residual: bool = Field(True, description="whether each layer adds its input")
    norm: bool = Field(True, description="whether each layer is normed")
    dropout: NonNegativeFloat = Field(0.1, lt=1, description="on each layer's result, in training")

    @property
    def printed_ratio(self) -> Printed | None:
        """Table 3 prints 1.10 for six layers of one hidden layer."""
        told = (self.d_s, self.depth, self.hidden_layers, self.inner or 408, self.norm, self.pooler)
        plain = told == (204, 6, 1, 408, True, "shared")
        return Printed(1.10, "Table 3 prints 1.10x") if plain else None

    def adapters(self, sites: Sites, tasks: Sequence[str], seed: int) -> Iterator[tuple[Site, Adapter]]:
        """One `TopStack` of feed-forward networks."""
        from weft.adapters.feed_forward import StackedFeedForward
        from weft.adapters.projected import Projection
        from weft.adapters.top import ResidualLayer, TopStack
        from weft.routing import Slots

        own = Slots.per_task(tasks)
        widths = [self.inner or INNER[self.hidden_layers]] * self.hidden_layers
        for site in sites.select(["top"]):
            layers = [
                ResidualLayer(
                    self.d_s,
                    StackedFeedForward(self.d_s, widths, own, seed, f"top/{number}"),
                    own,
                    self.residual,
                    self.norm,
                    self.dropout,
                )
                for number in range(self.depth)
            ]
            yield site, TopStack(site, Projection(sites.width, self.d_s, own, seed, "top"), layers)
