"""`low_rank`: the low-rank layers of "BERT and PALs"; not LoRA, which updates a weight."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Literal

from pydantic import Field, PositiveInt

from weft.methods.method import Printed
from weft.methods.task_function import BesideBlocks, Projections

if TYPE_CHECKING:
    from weft.adapters.adapter import Adapter
    from weft.encoder.sites import Site, Sites


class LowRank(BesideBlocks):
    """h' = LN(FFN(a) + a + TS(h)), TS(h) = V_D·gelu(V_E·h), beside each block as in `pals`.

    The authors' code has a GELU inside, the paper the identity. `pals` describes what parallel means in a
    pre-norm encoder.
    """

    name = "low_rank"
    d_s: PositiveInt = Field(100, description="the width of the projected space, the paper's d_s")
    activation: Literal["gelu", "identity"] = Field(
        "gelu", description="inside: gelu (the code) or identity (the paper)"
    )

    def printed(self, num_layers: int) -> Printed | None:
        """Table 3 prints 1.13 for d_s 100."""
        whole = self.blocks(num_layers) == list(range(12))
        tried = whole and (self.d_s, self.share) == (100, "none")
        return Printed(1.13, "Table 3 prints 1.13x") if tried else None

    def adapters(self, sites: Sites, tasks: Sequence[str], seed: int) -> Iterator[tuple[Site, Adapter]]:
        """A projected activation at each block."""
        from weft.adapters.projected import Projected

        pairs = Projections(self.share, sites.width, self.d_s, tasks, seed, self.zero_init)
        for site in self.sites(sites):
            amplitude = self.amplitude(sites, tasks)
            function = Projected(pairs.at(site), self.activation, amplitude=amplitude)
            yield self.connected(function, site, sites, tasks)
