"""`poly`: a task's update is a mixture of low-rank skills (Ponti et al., 2022; MHR: Caccia et al., 2023)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from pydantic import Field, PositiveFloat, PositiveInt

from weft.encoder.sites import SiteKinds
from weft.methods.method import LAYERS, Layers, Method

if TYPE_CHECKING:
    from weft.adapters.adapter import Adapter
    from weft.encoder.sites import Site, Sites


class Poly(Method):
    """W·x + (α/r)·B_t·A_t·x, A_t = Σ_k p_tk·A_k, B_t alike, p_t a normalized sigmoid per task; starts at the
    base exactly.

    Polytropon; with `splits`, multi-head routing (MHR): one mixture per slice of a map's inputs and outputs.
    """

    name = "poly"
    adds = True
    rank: PositiveInt = Field(8, description="r, the rank of every skill")
    skills: PositiveInt = Field(8, description="K, the number of skills that all tasks share")
    splits: PositiveInt = Field(1, description="slices of a map, each with its own mixture; 2 or more is MHR")
    alpha: PositiveFloat | None = Field(
        None, description="the update is scaled by alpha / rank; default rank; PEFT's is 1"
    )
    noise: bool = Field(
        False,
        description="in training, draw relaxed Bernoulli variables instead of sigmoids, as the papers do",
    )
    sites: SiteKinds = Field(("query", "value"), description="the linear maps that are updated")
    layers: Layers = Field("all", description=LAYERS)

    def weave(self, sites: Sites, tasks: Sequence[str], seed: int) -> Iterator[tuple[Site, Adapter]]:
        """A `PolyAdapter` at each site."""
        from weft.adapters.mixture import PolyAdapter
        from weft.core.stacked import Slots

        shared, per_task = Slots.one(tasks), Slots.per_task(tasks)
        scale = 1.0 if self.alpha is None else self.alpha / self.rank
        sizes = (self.rank, self.skills, self.splits)
        for site in sites.select(self.sites, self.layers):
            yield site, PolyAdapter(site, shared, per_task, *sizes, scale, self.noise, seed)
