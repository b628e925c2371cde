"""`ia3`: keys, values and the feed-forward part's inner activation are scaled (Liu et al., 2022)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from pydantic import Field

from weft.encoder.sites import SiteKinds
from weft.methods.method import LAYERS, Layers, Method, Share, slots_for

if TYPE_CHECKING:
    from weft.adapters.adapter import Adapter
    from weft.encoder.sites import Site, Sites


class Ia3(Method):
    """l_t ∘ y at keys, values and the feed-forward part's inner activation; starts at the base exactly.

    In a gated feed-forward part (ModernBERT) the product with the gate is scaled, which its output map reads.
    """

    name = "ia3"
    default_lr = 3e-3
    sites: SiteKinds = Field(
        ("key", "value", "ffn_hidden"), description="linear maps whose outputs are scaled, and ffn_hidden"
    )
    layers: Layers = Field("all", description=LAYERS)
    share: Share = Field(
        "task", description="task: one per task; all: one for all tasks; or {group: [task, …]}"
    )

    def weave(self, sites: Sites, tasks: Sequence[str], seed: int) -> Iterator[tuple[Site, Adapter]]:
        """A `ScaleAdapter` at each site."""
        from weft.adapters.scale import ScaleAdapter

        slots = slots_for(self.share, tasks)
        for site in sites.select(self.sites, self.layers):
            yield site, ScaleAdapter(site, slots)
