"""`houlsby`: bottleneck adapters in a frozen encoder (Houlsby et al., 2019), the published form."""

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
    """x + W_up·act(W_down·x) on each sub-layer's output, before its residual; layer norms of a task's own.

    The encoder is frozen. W_up and W_down start at N(0, 0.001²): near the identity. It is the same in a
    pre-norm encoder, where the sub-layer's output goes to the stream.
    """

    name = "houlsby"
    default_lr = 1e-3
    train_encoder: TrainEncoder = Field("none", description="what of the encoder trains")
    size: PositiveInt = Field(64, description="the bottleneck's width; the paper tries 8, 64, 256 and more")
    activation: Literal["gelu", "relu", "tanh"] = Field("gelu", description="inside the bottleneck")
    norms: Literal["all", "blocks", "none"] = Field(
        "all", description="which layer norms each task has its own of: all, those of the blocks, or none"
    )
    layers: Layers = Field("all", description=LAYERS)
    start: PositiveFloat = Field(1e-3, description="the spread of W_up's and W_down's start")
    zero_init: bool = Field(False, description="W_up starts at zero: the start is the base, exactly")

    @property
    def starts_at_base(self) -> bool:  # type: ignore[override]
        """With `zero_init`; else near it."""
        return self.zero_init

    def adapters(self, sites: Sites, tasks: Sequence[str], seed: int) -> Iterator[tuple[Site, Adapter]]:
        """A bottleneck at both sub-layers of each block, and the norms."""
        from weft.adapters.connection import ResidualAdapter
        from weft.adapters.projected import Projected, Projection
        from weft.adapters.task_norm import TaskNormAdapter
        from weft.core.stacked import Slots

        own = Slots.per_task(tasks)
        for site in sites.select(["attention_delta", "ffn_delta"], self.layers):
            pair = Projection(
                sites.width, self.size, own, seed, site.key, std=self.start, zero_init=self.zero_init
            )
            yield site, ResidualAdapter(site, Projected(pair, self.activation))
        for site in sites.available(NORMS[self.norms], self.layers):
            if site.layer is not None or self.layers == "all":  # some layers: their norms alone
                yield site, TaskNormAdapter(site, own)
