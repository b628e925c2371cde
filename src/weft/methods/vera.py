"""`vera`: two vectors per task and map, between random factors that all maps of one shape share."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from pydantic import Field, NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt

from weft.methods.method import Share, slots_for
from weft.methods.ranked import RankedSites

if TYPE_CHECKING:
    from weft.adapters.adapter import Adapter
    from weft.adapters.vera import RandomFactors
    from weft.encoder.sites import Site, Sites


class Vera(RankedSites):
    """W·x + v_t∘(B·(d_t∘(A·x))), A and B random and constant (Kopiczko et al., 2024); starts at the base.

    A task owns r + o numbers per map. All maps of one shape, in all layers, use the same A and B. No file
    holds them: they are drawn from `factor_seed`.
    """

    name = "vera"
    rank: PositiveInt = Field(256, description="r, the rank of the random factors; the paper takes 1024")
    d_start: PositiveFloat = Field(0.1, description="the initial value of d")
    factor_seed: NonNegativeInt = Field(
        0,
        le=999_999_999,
        description="the seed of A and B; tasks of one bundle must have the same, whatever the run's seed is",
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
        """A `VeraAdapter` at each site, with one pair of factors for each shape."""
        from weft.adapters.vera import RandomFactors, VeraAdapter

        slots = slots_for(self.share, tasks)
        factors: dict[tuple[int, int, int], RandomFactors] = {}
        for site, rank in self.ranked_sites(sites):
            shape = (site.in_width, site.out_width, rank)
            if shape not in factors:
                factors[shape] = RandomFactors(*shape, self.factor_seed)
            yield site, VeraAdapter(site, slots, factors[shape], rank, self.d_start, self.dropout)
