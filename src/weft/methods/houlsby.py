"""`houlsby`: bottleneck adapters in a frozen encoder, as published (Houlsby et al., 2019)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Literal

from pydantic import Field, PositiveFloat, PositiveInt

from weft.encoder.sites import BLOCK_NORM, NORM
from weft.methods.method import LAYERS, Layers, TrainEncoder
from weft.methods.task_function import PalsMethod

if TYPE_CHECKING:
    from weft.adapters.adapter import Adapter
    from weft.encoder.sites import Site, Sites

NORMS: dict[str, tuple[str, ...]] = {"all": NORM, "blocks": BLOCK_NORM, "none": ()}


class Houlsby(PalsMethod):
    """x + W_up·act(W_down·x) on each sub-layer's output, before its residual; layer norms per task.

    The encoder is frozen. W_up and W_down start at N(0, 0.001²), near the identity. In a pre-norm encoder it
    is the same: the sub-layer's output is added to the residual stream.
    """

    name = "houlsby"
    default_lr = 1e-3
    train_encoder: TrainEncoder = Field("none", description="which parameters of the encoder train")
    size: PositiveInt = Field(64, description="the bottleneck's width; the paper tries 8, 64, 256 and more")
    activation: Literal["gelu", "relu", "tanh"] = Field("gelu", description="inside the bottleneck")
    norms: Literal["all", "blocks", "none"] = Field(
        "all", description="the layer norms that each task has a copy of: all, those of the blocks, or none"
    )
    layers: Layers = Field("all", description=LAYERS)
    start: PositiveFloat = Field(1e-3, description="standard deviation of the initial W_up and W_down")
    zero_init: bool = Field(False, description="W_up starts at zero: the start is the base, exactly")

    @property
    def starts_at_base(self) -> bool:  # type: ignore[override]
        """True with `zero_init`; else the start is only near the base."""
        return self.zero_init

    def adapters(self, sites: Sites, tasks: Sequence[str], seed: int) -> Iterator[tuple[Site, Adapter]]:
        """A bottleneck at both sub-layers of each block, and the norms."""
        from weft.adapters.connection import ResidualAdapter
        from weft.adapters.projected import Projected, Projection
        from weft.adapters.task_norm import TaskNormAdapter
        from weft.core.stacked import Slots

        slots = Slots.per_task(tasks)
        for site in sites.select(["attention_delta", "ffn_delta"], self.layers):
            pair = Projection(
                sites.width, self.size, slots, seed, site.key, std=self.start, zero_init=self.zero_init
            )
            yield site, ResidualAdapter(site, Projected(pair, self.activation))
        for site in sites.available(NORMS[self.norms], self.layers):
            if site.layer is not None or self.layers == "all":  # with selected layers, only their norms
                yield site, TaskNormAdapter(site, slots)
