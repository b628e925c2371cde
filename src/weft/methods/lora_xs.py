"""`lora_xs`: one small matrix per task and map, between the singular vectors of the map."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from pydantic import Field, NonNegativeFloat, PositiveFloat, PositiveInt

from weft.methods.ranked import RankedSites

if TYPE_CHECKING:
    from weft.adapters.adapter import Adapter
    from weft.encoder.sites import Site, Sites


class LoraXs(RankedSites):
    """W·x + (α/r)·B·R_t·A·x, B·A the part of W of rank r (Bałazy et al., 2024); starts at the base exactly.

    A task owns R_t alone, r×r numbers per map, however large the encoder is. A and B come from a singular
    value decomposition of W, are constant and shared by all tasks.
    """

    name = "lora_xs"
    rank: PositiveInt = Field(
        16, description="r, the number of singular vectors; a task has r² numbers per map"
    )
    alpha: PositiveFloat | None = Field(
        None, description="the update is scaled by alpha / rank, whatever rank_pattern says; default rank"
    )
    dropout: NonNegativeFloat = Field(
        0.0, lt=1, description="dropout probability of the update's input, in training"
    )

    @property
    def shares_constants(self) -> bool:
        """See `Method`: A and B, as long as the encoder is frozen."""
        return self.train_encoder == "none"

    def weave(self, sites: Sites, tasks: Sequence[str], seed: int) -> Iterator[tuple[Site, Adapter]]:
        """A `LoraXsAdapter` at each site."""
        from weft.adapters.lora_xs import LoraXsAdapter
        from weft.core.stacked import Slots

        shared, per_task = Slots.one(tasks), Slots.per_task(tasks)
        scale = 1.0 if self.alpha is None else self.alpha / self.rank
        for site, rank in self.ranked_sites(sites):
            yield site, LoraXsAdapter(site, shared, per_task, rank, scale, self.dropout)
