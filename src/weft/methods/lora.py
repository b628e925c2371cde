"""`lora`: low-rank updates of linear maps, per task, for all tasks, or for groups of tasks."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Literal, Self

from pydantic import Field, NonNegativeFloat, PositiveFloat, model_validator

from weft.methods.method import Share, slots_for
from weft.methods.ranked import RankMethod

if TYPE_CHECKING:
    from weft.adapters.adapter import Adapter
    from weft.encoder.sites import Site, Sites


class Lora(RankMethod):
    """W·x + (α/r)·B·A·x at each site (Hu et al., 2021); starts at the base exactly.

    The query, key and value of a fused map (ModernBERT) are slices of it, each with a separate A and B.
    `scaling: rslora` (Kalajdzievski, 2023), `init: pissa` (Meng et al., 2024) and `lr_ratio` (LoRA+, Hayou et
    al., 2024) are its variants.
    """

    name = "lora"
    alpha: PositiveFloat | None = Field(
        None, description="the update is scaled by alpha / rank, whatever rank_pattern says; default rank"
    )
    dropout: NonNegativeFloat = Field(
        0.0, lt=1, description="dropout probability of the update's input, in training"
    )
    share: Share = Field(
        "task", description="task: one per task; all: one for all tasks; or {group: [task, …]}"
    )
    scaling: Literal["lora", "rslora"] = Field(
        "lora", description="the scale: alpha / rank, or rslora: alpha / √rank, for large ranks"
    )
    init: Literal["lora", "pissa"] = Field(
        "lora", description="the start: random A, or pissa: the weight's largest singular components"
    )
    lr_ratio: PositiveFloat = Field(
        1.0, description="the learning rate of B divided by that of A; LoRA+ takes 16"
    )

    @model_validator(mode="after")
    def _check_gates(self) -> Self:
        """Refuse gates on components of the weight itself: a shut one would leave a hole in the weight."""
        if self.init == "pissa" and self.l0 is not None:
            raise ValueError("init: pissa has no L0 gates; expected l0: null, or init: lora")
        return self

    @property
    def scale(self) -> float:
        """α/r, or α/√r."""
        alpha = self.rank if self.alpha is None else self.alpha
        return alpha / (math.sqrt(self.rank) if self.scaling == "rslora" else self.rank)

    @property
    def shares_constants(self) -> bool:
        """See `Method`: what `pissa` subtracts, if nothing else is shared."""
        return self.init == "pissa" and self.share == "task" and self.train_encoder == "none"

    def component_sets(self, tasks: Sequence[str]) -> int:
        """See `RankedSites`: one set per slot."""
        return len(slots_for(self.share, tasks))

    def weave(self, sites: Sites, tasks: Sequence[str], seed: int) -> Iterator[tuple[Site, Adapter]]:
        """A `LoraAdapter` or a `PissaAdapter` at each site."""
        from weft.adapters.lora import LoraAdapter
        from weft.adapters.pissa import PissaAdapter
        from weft.core.stacked import Slots

        slots, shared = slots_for(self.share, tasks), Slots.one(tasks)
        for site, rank in self.ranked_sites(sites):
            if self.init == "pissa":
                yield site, PissaAdapter(site, slots, shared, rank, self.scale, self.dropout, self.lr_ratio)
            else:
                adapter = LoraAdapter(
                    site, slots, rank, self.scale, self.dropout, seed, self.l0, self.lr_ratio
                )
                yield site, adapter
