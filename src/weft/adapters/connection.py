"""Connects a per-task function to the encoder: in parallel, with a residual, or in series."""

from __future__ import annotations

from torch import Tensor, nn

from weft.adapters.adapter import Adapter
from weft.adapters.stacked import StackedNorm
from weft.core.route import Memory, Route
from weft.core.stacked import Slots
from weft.encoder.sites import Site


class ParallelAdapter(Adapter):
    """v ← v + TS(x), x a tensor that the route stores for the block: a function in parallel to the block.

    At `ffn_delta` the result is only added to the block's last residual: in a post-norm encoder
    h' = LN2(f + att + TS(h)), in a pre-norm one h' = (stream + f) + TS(norm_1(h)).

    Args:
        site: a sub-layer's output before the residual.
        function: TS, [R, L, d] → [R, L, d].
        reads: `attention_input` (what the block's own attention reads: its input, normed in a pre-norm
            encoder) or `ffn_input` (what its feed-forward part reads).
    """

    fits = ("attention_delta", "ffn_delta")

    def __init__(self, site: Site, function: nn.Module, reads: Memory) -> None:
        super().__init__(site)
        self.function = function
        self.source: Memory = reads
        self.reads = (reads,)

    def forward(self, x: Tensor, route: Route) -> Tensor:
        """x [R, L, d] → [R, L, d]."""
        term: Tensor = self.function(route.remembered(self.source), route)
        return x + term.to(x.dtype)


class ResidualAdapter(Adapter):
    """v ← v + TS(v): a function in series, with a residual connection around it.

    With TS(v) = W_up·act(W_down·v) it is the bottleneck of Houlsby et al. (2019).

    Args:
        site: a sub-layer's output before the residual, or a block's.
        function: TS, [R, L, d] → [R, L, d].
    """

    fits = ("attention_delta", "ffn_delta", "block", "top")

    def __init__(self, site: Site, function: nn.Module) -> None:
        super().__init__(site)
        self.function = function

    def forward(self, x: Tensor, route: Route) -> Tensor:
        """x [R, L, d] → [R, L, d]."""
        term: Tensor = self.function(x, route)
        return x + term.to(x.dtype)


class SerialAdapter(Adapter):
    """Adds a sub-layer with a new norm after the block (PALs, eq. 9 and 10).

    Post-norm: v ← LN_t(v + TS(v)). A new norm does not leave a normalized v unchanged, so the initial model
    never equals the base. Pre-norm: v ← v + TS(LN_t(v)), like the other sub-layers of the encoder; the
    residual stream is never normalized, and with TS = 0 this equals the base.

    Args:
        site: a block's output.
        function: TS, [R, L, d] → [R, L, d].
        slots: the slots of the norm.
        pre_norm: whether to use the second form.
    """

    fits = ("block",)

    def __init__(self, site: Site, function: nn.Module, slots: Slots, pre_norm: bool) -> None:
        super().__init__(site)
        self.function = function
        self.pre_norm = pre_norm
        self.norm = StackedNorm(site.out_width, slots)

    def forward(self, x: Tensor, route: Route) -> Tensor:
        """x [R, L, d] → [R, L, d]."""
        term: Tensor = self.function(self.norm(x, route) if self.pre_norm else x, route)
        summed = x + term.to(x.dtype)
        if self.pre_norm:
            return summed
        normed: Tensor = self.norm(summed, route)
        return normed
