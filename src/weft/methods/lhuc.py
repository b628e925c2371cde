"""`lhuc`: learning hidden unit contributions, one scale per unit (Swietojanski and Renals, 2014)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from pydantic import Field

from weft.encoder.sites import SiteKinds
from weft.methods.method import LAYERS, Layers
from weft.methods.task_function import PalsMethod

if TYPE_CHECKING:
    from weft.adapters.adapter import Adapter
    from weft.encoder.sites import Site, Sites


class Lhuc(PalsMethod):
    """v·2σ(l) at each block's output, one l per task and layer; starts at the base exactly (l = 0)."""

    name = "lhuc"
    sites: SiteKinds = Field(("block",), description="the values that are scaled")
    layers: Layers = Field("all", description=LAYERS)

    def adapters(self, sites: Sites, tasks: Sequence[str], seed: int) -> Iterator[tuple[Site, Adapter]]:
        """A `LhucAdapter` at each value."""
        from weft.adapters.lhuc import LhucAdapter
        from weft.core.stacked import Slots

        for site in sites.select(self.sites, self.layers):
            yield site, LhucAdapter(site, Slots.per_task(tasks))
