"""`houlsby_parallel`: the Houlsby-like adapters in the code of "BERT and PALs"."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Literal

from pydantic import Field, PositiveInt

from weft.methods.method import LAYERS, Layers
from weft.methods.task_function import SHARE, Projections, ShareProjections, ZeroInitMethod

if TYPE_CHECKING:
    from weft.adapters.adapter import Adapter
    from weft.encoder.sites import Site, Sites


class HoulsbyParallel(ZeroInitMethod):
    """a + LR(a) on the attention's output a, FFN(x) + LR(x) in parallel to the feed-forward part.

    LR(x) = V_D·gelu(V_E·x), a separate one at each site. This is not the published form (`houlsby`): the
    second LR is parallel to the feed-forward part and reads the same input (in a pre-norm encoder the output
    of norm_2), and the encoder trains.
    """

    name = "houlsby_parallel"
    d_s: PositiveInt = Field(50, description="the width of the projected space, the paper's d_s")
    activation: Literal["gelu", "identity"] = Field("gelu", description="inside: gelu (the code) or identity")
    share: ShareProjections = Field("none", description=SHARE)
    layers: Layers = Field("all", description=LAYERS)

    def adapters(self, sites: Sites, tasks: Sequence[str], seed: int) -> Iterator[tuple[Site, Adapter]]:
        """A low-rank function at both sub-layers of each block."""
        from weft.adapters.connection import ParallelAdapter, ResidualAdapter
        from weft.adapters.projected import Projected

        settings = (self.share, sites.width, self.d_s, tasks, seed, self.zero_init)
        attention, ffn = Projections(*settings, name="_attention"), Projections(*settings, name="_ffn")
        for site in sites.select(["attention_delta"], self.layers):
            yield site, ResidualAdapter(site, Projected(attention.at(site), self.activation))
        for site in sites.select(["ffn_delta"], self.layers):
            yield site, ParallelAdapter(site, Projected(ffn.at(site), self.activation), "ffn_input")
