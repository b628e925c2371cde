"""`lora`: low-rank updates of linear maps, per task, for all tasks, or for groups of tasks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from pydantic import Field, NonNegativeFloat, PositiveFloat, PositiveInt

from weft.encoder.sites import SiteKinds
from weft.methods.method import LAYERS, ROUND_BERT_BASE, Layers, Method, Share, slots_for

if TYPE_CHECKING:
    from weft.adapters.adapter import Adapter
    from weft.encoder.sites import Site, Sites


class Lora(Method):
    """W·x + (α/r)·B·A·x at each site (Hu et al., 2021); starts at the base exactly.

    The query, key and value of a fused map (ModernBERT) are its slices, each with an A and a B of its own.
    """

    name = "lora"
    paper_basis = ROUND_BERT_BASE
    rank: PositiveInt = Field(8, description="r, the rank of every update")
    alpha: PositiveFloat | None = Field(
        None, description="the update is scaled by alpha / rank; default rank"
    )
    dropout: NonNegativeFloat = Field(0.0, lt=1, description="on the update's input, in training")
    sites: SiteKinds = Field(("query", "value"), description="the linear maps that are updated")
    layers: Layers = Field("all", description=LAYERS)
    share: Share = Field("task", description="task: each its own; all: one for all; or {group: [task, …]}")

    def weave(self, sites: Sites, tasks: Sequence[str], seed: int) -> Iterator[tuple[Site, Adapter]]:
        """A `LoraAdapter` at each site."""
        from weft.adapters.lora import LoraAdapter

        slots = slots_for(self.share, tasks)
        alpha = self.rank if self.alpha is None else self.alpha
        for site in sites.select(self.sites, self.layers):
            yield site, LoraAdapter(site, slots, self.rank, alpha, self.dropout, seed)
