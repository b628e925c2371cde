"""`pals`: projected attention layers beside the encoder's own (Cooper Stickland and Murray, 2019)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Literal

from pydantic import Field, NonNegativeFloat, PositiveInt

from weft.methods.method import Printed
from weft.methods.task_function import (
    CONNECTION,
    LAYERS,
    SHARE,
    Connection,
    Heads,
    Layers,
    Projections,
    ShareProjections,
    ZeroInitMethod,
    connected,
)

if TYPE_CHECKING:
    from weft.adapters.adapter import Adapter
    from weft.encoder.sites import Site, Sites


class Pals(ZeroInitMethod):
    """h' = LN(FFN(a) + a + TS(h)), TS(h) = gelu(V_D·MH(V_E·h)), a the block's stream after its attention.

    TS reads what enters the block and is added to its last residual alone, as in the authors' code. In a
    pre-norm encoder TS reads what the block's own attention reads, norm_1(h), and is added to the stream:
    h' = a + FFN(norm_2(a)) + TS(norm_1(h)). MH has no W^o; q, k and v are of each task and layer. With
    `inside: ffn` a small feed-forward network stands in the place of MH.
    """

    name = "pals"
    d_s: PositiveInt = Field(204, description="the width of the task's own small space, the paper's d_s")
    inside: Literal["attention", "ffn"] = Field("attention", description="g: attention, or a small network")
    heads: Heads = Field(6, description="attention heads, a divisor of d_s; the code has 6")
    ffn_size: PositiveInt = Field(306, description="the hidden width of `inside: ffn`")
    after: Literal["auto", "gelu", "identity"] = Field(
        "auto", description="behind V_D; auto: gelu for attention (the code), identity for ffn (the paper)"
    )
    share: ShareProjections = Field("layers", description=SHARE)
    connection: Connection = Field("parallel", description=CONNECTION)
    layers: Layers = Field("all", description=LAYERS)
    attention_dropout: NonNegativeFloat = Field(
        0.1, lt=1, description="on the attention's weights, in training"
    )
    lhuc: bool = Field(False, description="scale the function's result by 2σ(l), l of each task and layer")

    @property
    def starts_at_base(self) -> bool:  # type: ignore[override]
        """With `zero_init`, beside the block: the new norm of a serial connection is no identity."""
        return self.zero_init and self.connection == "parallel"

    @property
    def printed_ratio(self) -> Printed | None:
        """Table 3 prints 1.13 for the four settings it tries."""
        tried = {("layers", 204, 12), ("none", 84, 12), ("layers", 276, 6)}
        count = {"all": 12, "top half": 6, "bottom half": 6}.get(str(self.layers))
        plain = self.inside == "attention" and self.connection == "parallel" and not self.lhuc
        if plain and self.pooler == "shared" and (self.share, self.d_s, count) in tried:
            return Printed(1.13, "Table 3 prints 1.13x")
        return None

    def adapters(self, sites: Sites, tasks: Sequence[str], seed: int) -> Iterator[tuple[Site, Adapter]]:
        """A projected function at each block."""
        from weft.adapters.attention import StackedAttention
        from weft.adapters.feed_forward import StackedFeedForward
        from weft.adapters.lhuc import Amplitude
        from weft.adapters.projected import Projected
        from weft.routing import Slots

        own = Slots.per_task(tasks)
        pairs = Projections(self.share, sites.width, self.d_s, tasks, seed, self.zero_init)
        after = self.after if self.after != "auto" else "gelu" if self.inside == "attention" else "identity"
        kind = "ffn_delta" if self.connection == "parallel" else "block"
        for site in sites.select([kind], self.layers):
            inside: StackedAttention | StackedFeedForward
            if self.inside == "attention":
                inside = StackedAttention(
                    self.d_s,
                    self.heads,
                    own,
                    seed,
                    f"{site.key}/attention",
                    dropout=self.attention_dropout,
                    name=site.key,
                )
            else:
                inside = StackedFeedForward(self.d_s, [self.ffn_size], own, seed, f"{site.key}/ffn")
            amplitude = Amplitude(sites.width, own) if self.lhuc else None
            function = Projected(pairs.at(site), inside, after, amplitude)
            yield connected(self.connection, function, site, own, sites.pre_norm)
