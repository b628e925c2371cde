"""`task_norm`: one copy of the layer norms per task."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Literal

from pydantic import Field

from weft.encoder.sites import BLOCK_NORM, NORM
from weft.methods.method import LAYERS, Layers, Method, Share, slots_for

if TYPE_CHECKING:
    from weft.adapters.adapter import Adapter
    from weft.encoder.sites import Site, Sites

NORMS: dict[str, tuple[str, ...]] = {"all": NORM, "blocks": BLOCK_NORM}


class TaskNorm(Method):
    """x̂·(w + Δw) + (b + Δb) at the encoder's norms; starts at the base exactly."""

    name = "task_norm"
    adds = True
    norms: Literal["all", "blocks"] = Field(
        "all", description="all norms, or those of the blocks without the embeddings' and the final one"
    )
    layers: Layers = Field("all", description=LAYERS)
    share: Share = Field(
        "task", description="task: one per task; all: one for all tasks; or {group: [task, …]}"
    )

    def weave(self, sites: Sites, tasks: Sequence[str], seed: int) -> Iterator[tuple[Site, Adapter]]:
        """A `TaskNormAdapter` at each norm that the family has."""
        from weft.adapters.task_norm import TaskNormAdapter

        slots = slots_for(self.share, tasks)
        for site in sites.available(NORMS[self.norms], self.layers):
            yield site, TaskNormAdapter(site, slots)
