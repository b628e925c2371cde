"""`bitfit`: trains bias vectors only (Ben Zaken et al., 2022), per task, for all tasks, or for groups."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Literal

from pydantic import Field

from weft.encoder.sites import BLOCK_MAPS, BLOCK_NORM, LINEAR, NORM, SiteKinds
from weft.methods.method import LAYERS, MORRIS_TASKS, ROUND_BERT_BASE, Layers, Method, Share, slots_for

if TYPE_CHECKING:
    from weft.adapters.adapter import Adapter
    from weft.encoder.sites import Site, Sites

BIASES: dict[str, tuple[str, ...]] = {
    "all": (*LINEAR, *NORM),
    "blocks": (*BLOCK_MAPS, *BLOCK_NORM),
    "dense": BLOCK_MAPS,
}


class Bitfit(Method):
    """base(x) + v at linear maps and norms, whether or not the base has a bias; starts at the base exactly.

    `all` is every linear map and norm of the encoder, including the embeddings' norm and the pooler: for BERT
    exactly its biases. `blocks` leaves out what is outside the blocks, `dense` the norms as well.
    """

    name = "bitfit"
    adds = True
    paper_basis = ROUND_BERT_BASE
    counted_tasks = MORRIS_TASKS
    biases: Literal["all", "blocks", "dense"] = Field("all", description="all, blocks, or dense")
    sites: SiteKinds | None = Field(None, description="the maps and norms by name, instead of `biases`")
    layers: Layers = Field("all", description=LAYERS)
    share: Share = Field(
        "task", description="task: one per task; all: one for all tasks; or {group: [task, …]}"
    )

    def weave(self, sites: Sites, tasks: Sequence[str], seed: int) -> Iterator[tuple[Site, Adapter]]:
        """A `BiasAdapter` at each site; for a named set of biases, at each site that the family has."""
        from weft.adapters.bias import BiasAdapter

        slots = slots_for(self.share, tasks)
        if self.sites is None:
            chosen = sites.available(BIASES[self.biases], self.layers)
        else:
            chosen = sites.select(self.sites, self.layers)
        for site in chosen:
            yield site, BiasAdapter(site, slots)
