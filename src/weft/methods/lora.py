"""`lora`: low-rank updates of linear maps, per task, for all tasks, or for groups of tasks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from pydantic import Field, NonNegativeFloat, PositiveFloat

from weft.methods.method import Share, slots_for
from weft.methods.ranked import RankMethod

if TYPE_CHECKING:
    from weft.adapters.adapter import Adapter
    from weft.encoder.sites import Site, Sites


class Lora(RankMethod):
    """W·x + (α/r)·B·A·x at each site (Hu et al., 2021); starts at the base exactly.

    The query, key and value of a fused map (ModernBERT) are slices of it, each with a separate A and B.
    """

    name = "lora"
    alpha: PositiveFloat | None = Field(
        None, description="the update is scaled by alpha / rank, whatever rank_pattern says; default rank"
    )
    dropout: NonNegativeFloat = Field(
        0.0, lt=1, description="dropout probability of the update's input, in training"
    )
    share: Share = Field(
        "task", description="task: one per task; all: one for all tasks; or {group: [task, …]}"
    )

    def component_sets(self, tasks: Sequence[str]) -> int:
        """See `RankedSites`: one set per slot."""
        return len(slots_for(self.share, tasks))

    def weave(self, sites: Sites, tasks: Sequence[str], seed: int) -> Iterator[tuple[Site, Adapter]]:
        """A `LoraAdapter` at each site."""
        from weft.adapters.lora import LoraAdapter

        slots = slots_for(self.share, tasks)
        scale = 1.0 if self.alpha is None else self.alpha / self.rank
        for site, rank in self.ranked_sites(sites):
            yield site, LoraAdapter(site, slots, rank, scale, self.dropout, seed, self.l0)
