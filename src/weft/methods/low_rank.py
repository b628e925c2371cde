"""`low_rank`: the low-rank layers of "BERT and PALs"; not LoRA, which updates a weight."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Literal

from pydantic import Field, PositiveInt

from weft.methods.method import Printed
from weft.methods.task_function import (
    CONNECTION,
    LAYERS,
    SHARE,
    Connection,
    Layers,
    Projections,
    ShareProjections,
    ZeroInitMethod,
    connected,
)

if TYPE_CHECKING:
    from weft.adapters.adapter import Adapter
    from weft.encoder.sites import Site, Sites


class LowRank(ZeroInitMethod):
    """h' = LN(FFN(a) + a + TS(h)), TS(h) = V_D·gelu(V_E·h), beside each block as in `pals`.

    The authors' code has a GELU inside, the paper the identity. What parallel means in a pre-norm encoder is
    said at `pals`.
    """

    name = "low_rank"
    d_s: PositiveInt = Field(100, description="the width of the task's own small space, the paper's d_s")
    activation: Literal["gelu", "identity"] = Field(
        "gelu", description="inside: gelu (the code) or identity (the paper)"
    )
    share: ShareProjections = Field("none", description=SHARE)
    connection: Connection = Field("parallel", description=CONNECTION)
    layers: Layers = Field("all", description=LAYERS)
    lhuc: bool = Field(False, description="scale the function's result by 2σ(l), l of each task and layer")

    @property
    def starts_at_base(self) -> bool:  # type: ignore[override]
        """With `zero_init`, beside the block: the new norm of a serial connection is no identity."""
        return self.zero_init and self.connection == "parallel"

    @property
    def printed_ratio(self) -> Printed | None:
        """Table 3 prints 1.13 for d_s 100."""
        told = (self.d_s, self.share, self.connection, self.layers, self.lhuc, self.pooler)
        return (
            Printed(1.13, "Table 3 prints 1.13x")
            if told == (100, "none", "parallel", "all", False, "shared")
            else None
        )

    def adapters(self, sites: Sites, tasks: Sequence[str], seed: int) -> Iterator[tuple[Site, Adapter]]:
        """A projected activation at each block."""
        from weft.adapters.lhuc import Amplitude
        from weft.adapters.projected import Projected
        from weft.routing import Slots

        own = Slots.per_task(tasks)
        pairs = Projections(self.share, sites.width, self.d_s, tasks, seed, self.zero_init)
        kind = "ffn_delta" if self.connection == "parallel" else "block"
        for site in sites.select([kind], self.layers):
            amplitude = Amplitude(sites.width, own) if self.lhuc else None
            function = Projected(pairs.at(site), self.activation, amplitude=amplitude)
            yield connected(self.connection, function, site, own, sites.pre_norm)
