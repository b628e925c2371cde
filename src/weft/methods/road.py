"""`road`: pairs of a map's outputs are rotated and scaled (Liao and Monz, 2024)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from pydantic import Field, PositiveInt

from weft.encoder.sites import SiteKinds
from weft.methods.method import LAYERS, Layers, Method, Share, slots_for

if TYPE_CHECKING:
    from weft.adapters.adapter import Adapter
    from weft.encoder.sites import Site, Sites


class Road(Method):
    """R_t·(W·x + b) at each site, R_t a rotation and a scale of each pair of outputs; starts at the base
    exactly.

    RoAd₁ of the paper, with the pairs of PEFT's `road`: output j of a group and output j + group/2.
    """

    name = "road"
    sites: SiteKinds = Field(("query", "value"), description="the linear maps whose outputs are rotated")
    layers: Layers = Field("all", description=LAYERS)
    group: PositiveInt | None = Field(
        None,
        multiple_of=2,
        description="outputs per group in which pairs are made; default 64, or all if it is no divisor",
    )
    share: Share = Field(
        "task", description="task: one per task; all: one for all tasks; or {group: [task, …]}"
    )

    def weave(self, sites: Sites, tasks: Sequence[str], seed: int) -> Iterator[tuple[Site, Adapter]]:
        """A `RoadAdapter` at each site."""
        from weft.adapters.road import RoadAdapter

        slots = slots_for(self.share, tasks)
        for site in sites.select(self.sites, self.layers):
            yield site, RoadAdapter(site, slots, self.group)
