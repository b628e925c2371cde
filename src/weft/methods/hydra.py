"""`hydra`: one map down and several maps up, mixed by a gate for each token (Tian et al., 2024)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from pydantic import Field, PositiveFloat, PositiveInt

from weft.encoder.sites import SiteKinds
from weft.methods.method import LAYERS, Layers, Method

if TYPE_CHECKING:
    from weft.adapters.adapter import Adapter
    from weft.encoder.sites import Site, Sites


class Hydra(Method):
    """W·x + (α/r)·Σ_i softmax(G·x)_i·B_i·A·x, one set for all tasks (HydraLoRA); starts at the base exactly.

    With `task_gate` the gate is softmax(G·x + u_t), with a vector u per task. That is not in the paper.
    """

    name = "hydra"
    rank: PositiveInt = Field(8, description="r, the rank of every expert")
    experts: PositiveInt = Field(3, description="N, the number of maps up")
    alpha: PositiveFloat | None = Field(
        None, description="the update is scaled by alpha / rank; default rank"
    )
    task_gate: bool = Field(False, description="add a vector per task to the gate's logits; not in the paper")
    sites: SiteKinds = Field(("query", "value"), description="the linear maps that are updated")
    layers: Layers = Field("all", description=LAYERS)

    def weave(self, sites: Sites, tasks: Sequence[str], seed: int) -> Iterator[tuple[Site, Adapter]]:
        """A `HydraAdapter` at each site."""
        from weft.adapters.mixture import HydraAdapter
        from weft.core.stacked import Slots

        shared = Slots.one(tasks)
        per_task = Slots.per_task(tasks) if self.task_gate else None
        scale = 1.0 if self.alpha is None else self.alpha / self.rank
        for site in sites.select(self.sites, self.layers):
            yield site, HydraAdapter(site, shared, per_task, self.rank, self.experts, scale, seed)
