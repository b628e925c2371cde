"""`dora`: low-rank updates of linear maps whose rows have learned magnitudes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from pydantic import Field, NonNegativeFloat, PositiveFloat

from weft.methods.method import Share, slots_for
from weft.methods.ranked import RankedSites

if TYPE_CHECKING:
    from weft.adapters.adapter import Adapter
    from weft.encoder.sites import Site, Sites


class Dora(RankedSites):
    """(m/‖W + (α/r)·B·A‖)∘(W·x + (α/r)·B·A·x) + b, the norm by row (Liu et al., 2024); starts at the base.

    The magnitude m of each row and its direction train separately, as in full fine-tuning and unlike in LoRA.
    It costs one more vector per map and task than `lora`.
    """

    name = "dora"
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
        """A `DoraAdapter` at each site."""
        from weft.adapters.dora import DoraAdapter

        slots = slots_for(self.share, tasks)
        scale = 1.0 if self.alpha is None else self.alpha / self.rank
        for site, rank in self.ranked_sites(sites):
            yield site, DoraAdapter(site, slots, rank, scale, self.dropout, seed)
