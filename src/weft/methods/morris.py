"""`morris`: the updates of all tasks as slices of one low-rank tensor (MORRIS)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Literal

from pydantic import Field, NonNegativeInt, PositiveInt

from weft.methods.ranked import BIASES, BIASES_ABOUT, PATTERN_ABOUT, Biases, RankMethod, a3_miscount, by_rank

if TYPE_CHECKING:
    from weft.adapters.adapter import Adapter
    from weft.encoder.sites import Site, Sites
    from weft.methods.method import Miscount


class Morris(RankMethod):
    """W·x + A·((Cᵀ·x) ∘ B_t) at linear maps, + D·E_t at biases; A, C, D are shared, B and E are per task.

    The tasks' updates of a map are the slices of one tensor of CP rank `rank`. The tasks' updates of a bias
    are the columns of one matrix of rank `bias_rank`. B and E start at zero: it starts at the base exactly.
    """

    name = "morris"
    default_lr = 4e-4
    rank: PositiveInt = Field(64, description="r, the rank of the tensor of updates of a map")
    bias_rank: PositiveInt = Field(4, description="the rank of the matrix of updates of a bias")
    biases: Biases = Field("dense", description=BIASES_ABOUT)
    core: Literal["cp", "tucker"] = Field("cp", description="the tensor's decomposition: cp or tucker")
    task_rank: PositiveInt = Field(8, description="the rank of the tasks' side of a tucker core")
    bias_rank_pattern: dict[str, NonNegativeInt] = Field({}, description=PATTERN_ABOUT)

    def miscount(self, num_layers: int, tasks: int) -> Miscount | None:
        """See `Method`."""
        plain = not self.bias_rank_pattern
        return a3_miscount(self.bias_rank, self.biases, self.layers, num_layers) if plain else None

    def weave(self, sites: Sites, tasks: Sequence[str], seed: int) -> Iterator[tuple[Site, Adapter]]:
        """A tensor at each map and a matrix at each bias."""
        from weft.adapters.cp import CpAdapter
        from weft.adapters.low_rank_bias import LowRankBiasAdapter
        from weft.adapters.tucker import TuckerAdapter
        from weft.core.stacked import Slots

        shared, per_task = Slots.one(tasks), Slots.per_task(tasks)
        for site, rank in self.ranked_sites(sites):
            if self.core == "cp":
                yield site, CpAdapter(site, shared, per_task, rank, seed, self.l0)
            else:
                yield site, TuckerAdapter(site, shared, per_task, rank, self.task_rank, seed, self.l0)
        chosen = sites.available(BIASES[self.biases], self.layers)
        for site, rank in by_rank(chosen, self.bias_rank, self.bias_rank_pattern, "bias_rank_pattern"):
            yield site, LowRankBiasAdapter(site, shared, per_task, rank, seed, self.l0)
