"""The base class of `top_attention` and `top_ffn`: a stack of small layers on top (PALs, section 3.2)."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, ClassVar

from pydantic import Field, NonNegativeFloat, PositiveInt

from weft.methods.task_function import PalsMethod

if TYPE_CHECKING:
    from weft.adapters.adapter import Adapter
    from weft.adapters.top import Sublayer
    from weft.core.stacked import Slots
    from weft.encoder.sites import Site, Sites


class TopStackMethod(PalsMethod):
    """V_D·g_n(… g_1(V_E·h)) replaces the last hidden states h, g(x) = LN(x + sublayer(x)).

    There is no residual around the whole stack, so it never starts at the base.
    """

    starts_at_base: ClassVar[bool] = False
    d_s: PositiveInt = Field(204, description="the width of the projected space, the paper's d_s")
    depth: PositiveInt = Field(6, le=1000, description="how many layers; the paper tries 3, 6 and 12")
    residual: bool = Field(True, description="whether each layer adds its input; crucial, the paper says")
    norm: bool = Field(True, description="whether each layer has a norm; crucial, the paper says")
    dropout: NonNegativeFloat = Field(
        0.1, lt=1, description="dropout probability of each layer's result, in training"
    )

    @abstractmethod
    def sublayer(self, number: int, slots: Slots, seed: int) -> Sublayer:
        """The function of one layer."""

    def adapters(self, sites: Sites, tasks: Sequence[str], seed: int) -> Iterator[tuple[Site, Adapter]]:
        """One `TopStack`."""
        from weft.adapters.projected import Projection
        from weft.adapters.top import ResidualLayer, TopStack
        from weft.core.stacked import Slots

        slots = Slots.per_task(tasks)
        for site in sites.select(["top"]):
            layers = [
                ResidualLayer(
                    self.d_s, self.sublayer(n, slots, seed), slots, self.residual, self.norm, self.dropout
                )
                for n in range(self.depth)
            ]
            yield site, TopStack(site, Projection(sites.width, self.d_s, slots, seed, "top"), layers)
