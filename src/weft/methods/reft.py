"""`reft`: block outputs are edited in a subspace of few dimensions per task (LoReFT; Wu et al., 2024)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from pydantic import Field, PositiveInt

from weft.encoder.sites import SiteKinds
from weft.methods.method import LAYERS, Layers, Method, Share, slots_for

if TYPE_CHECKING:
    from weft.adapters.adapter import Adapter
    from weft.encoder.sites import Site, Sites


class Reft(Method):
    """h + R_tᵀ·(W_t·h + b_t − R_t·h) at each block's output, R_t with orthonormal rows; starts at the base
    exactly.

    LoReFT, at every token; the paper edits the first and last few tokens.
    """

    name = "reft"
    rank: PositiveInt = Field(4, description="r, the number of dimensions that are edited")
    sites: SiteKinds = Field(("block",), description="the values that are edited")
    layers: Layers = Field("all", description=LAYERS)
    share: Share = Field(
        "task", description="task: one per task; all: one for all tasks; or {group: [task, …]}"
    )
    zero_init: bool = Field(
        True,
        description="W_t = R_t, b_t = 0: the start is the base, exactly; false: random, as in the paper",
    )

    @property
    def starts_at_base(self) -> bool:  # type: ignore[override]
        """True with `zero_init`."""
        return self.zero_init

    def weave(self, sites: Sites, tasks: Sequence[str], seed: int) -> Iterator[tuple[Site, Adapter]]:
        """A `ReftAdapter` at each value."""
        from weft.adapters.reft import ReftAdapter

        slots = slots_for(self.share, tasks)
        for site in sites.select(self.sites, self.layers):
            yield site, ReftAdapter(site, slots, self.rank, seed, random=not self.zero_init)
