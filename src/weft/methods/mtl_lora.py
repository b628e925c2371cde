"""`mtl_lora`: a LoRA that all tasks share, with a small matrix and mixing weights per task."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from pydantic import Field, NonNegativeFloat, PositiveFloat, PositiveInt

from weft.methods.ranked import RankedSites

if TYPE_CHECKING:
    from weft.adapters.adapter import Adapter
    from weft.encoder.sites import Site, Sites


class MtlLora(RankedSites):
    """W·x + (α/r)·Σ_i softmax(w_t/τ)_i·B_i·Λ_t·A·x (Yang et al., 2024); starts at the base exactly.

    All tasks share A and the maps B_i. A task owns Λ_t, an r×r matrix that starts as the identity, and w_t,
    with which it mixes the B_i.
    """

    name = "mtl_lora"
    maps: PositiveInt = Field(3, description="n, the number of maps B_i; the authors take 3")
    temperature: PositiveFloat = Field(
        0.1, description="τ of the softmax over w_t; the authors' script takes 0.1"
    )
    alpha: PositiveFloat | None = Field(
        None, description="the update is scaled by alpha / rank, whatever rank_pattern says; default rank"
    )
    dropout: NonNegativeFloat = Field(
        0.0, lt=1, description="dropout probability of the update's input, in training"
    )

    def weave(self, sites: Sites, tasks: Sequence[str], seed: int) -> Iterator[tuple[Site, Adapter]]:
        """An `MtlLoraAdapter` at each site."""
        from weft.adapters.mtl_lora import MtlLoraAdapter
        from weft.core.stacked import Slots

        shared, per_task = Slots.one(tasks), Slots.per_task(tasks)
        scale = 1.0 if self.alpha is None else self.alpha / self.rank
        for site, rank in self.ranked_sites(sites):
            yield (
                site,
                MtlLoraAdapter(
                    site, shared, per_task, rank, self.maps, self.temperature, scale, self.dropout, seed
                ),
            )
