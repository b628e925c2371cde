"""`lora_bitfit`: LoRA and one vector per bias (the single-task baseline of MORRIS)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from pydantic import Field

from weft.methods.lora import Lora
from weft.methods.method import slots_for
from weft.methods.ranked import BIASES, BIASES_ABOUT, Biases, a3_miscount

if TYPE_CHECKING:
    from weft.adapters.adapter import Adapter
    from weft.encoder.sites import Site, Sites
    from weft.methods.method import Miscount


class LoraBitfit(Lora):
    """W·x + (α/r)·B_t·A_t·x at linear maps and + v_t at the blocks' biases; starts at the base exactly.

    Nothing is shared: tasks that were trained separately can be put into one bundle later (`weft assemble`).
    """

    name = "lora_bitfit"
    biases: Biases = Field("dense", description=BIASES_ABOUT)

    def miscount(self, num_layers: int, tasks: int) -> Miscount | None:
        """See `Method`."""
        sets = {"task": tasks, "all": 1}.get(self.share) if isinstance(self.share, str) else None
        return None if sets is None else a3_miscount(sets, self.biases, self.layers, num_layers)

    def weave(self, sites: Sites, tasks: Sequence[str], seed: int) -> Iterator[tuple[Site, Adapter]]:
        """A `LoraAdapter` at each map and a `BiasAdapter` at each bias."""
        from weft.adapters.bias import BiasAdapter

        yield from super().weave(sites, tasks, seed)
        slots = slots_for(self.share, tasks)
        for site in sites.available(BIASES[self.biases], self.layers):
            yield site, BiasAdapter(site, slots)
