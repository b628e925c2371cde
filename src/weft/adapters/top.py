"""What a task may have on top of the encoder: a stack of small layers, or a whole layer."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor, nn
from torch.nn import functional as F

from weft.adapters.adapter import Adapter
from weft.adapters.attention import StackedAttention
from weft.adapters.feed_forward import StackedFeedForward
from weft.adapters.projected import Projection
from weft.adapters.stacked import StackedNorm
from weft.core.route import Route
from weft.core.stacked import Slots
from weft.encoder.sites import Site

Sublayer = StackedAttention | StackedFeedForward


class ResidualLayer(nn.Module):
    """x ← LN_t(x + dropout(g(x))), the residual and the norm each where asked for.

    Args:
        width: s.
        inner: g, [R, L, s] → [R, L, s].
        slots: who has its own norm.
        residual: whether x is added.
        norm: whether the sum is normed.
        dropout: on g's result, in training.
    """

    def __init__(
        self, width: int, inner: Sublayer, slots: Slots, residual: bool, norm: bool, dropout: float
    ) -> None:
        super().__init__()
        self.inner = inner
        self.residual = residual
        self.dropout = dropout
        self.norm = StackedNorm(width, slots) if norm else None

    def forward(self, x: Tensor, route: Route) -> Tensor:
        """x [R, L, s] → [R, L, s]."""
        y: Tensor = F.dropout(self.inner(x, route), self.dropout, self.training)
        if self.residual:
            y = x + y.to(x.dtype)
        return y if self.norm is None else self.norm(y, route)


class TopStack(Adapter):
    """v ← V_D·g_n(… g_1(V_E·v)): the last hidden states replaced, no residual around the whole (PALs, eq. 7).

    Args:
        site: `top`.
        projection: V_E and V_D.
        layers: g_1 … g_n, each a `ResidualLayer` of the small width.
    """

    fits = ("top",)

    def __init__(self, site: Site, projection: Projection, layers: list[ResidualLayer]) -> None:
        super().__init__(site)
        self.project = projection
        self.layers = nn.ModuleList(layers)

    def forward(self, x: Tensor, route: Route) -> Tensor:
        """x [R, L, d] → [R, L, d]."""
        small = self.project.down(x, route)  # [R, L, s]
        for layer in self.layers:
            small = layer(small, route)
        wide: Tensor = self.project.up(small, route)
        return wide.to(x.dtype)


class TopLayer(Adapter):
    """v ← LN2_t(a + FFN_t(a)), a = LN1_t(v + MH_t(v)): a whole layer a task, of BERT's form in every family.

    `top` is behind the last norm in a pre-norm encoder too: what enters is normed everywhere, and so is what
    leaves. DeBERTa's relative positions and ModernBERT's rotations have no part in it.

    Args:
        site: `top`.
        attention: MH_t, with its W^o.
        feed_forward: FFN_t.
        slots: who has its own.
        dropout: on each sub-layer's result, in training.
    """

    fits = ("top",)

    def __init__(
        self,
        site: Site,
        attention: StackedAttention,
        feed_forward: StackedFeedForward,
        slots: Slots,
        dropout: float,
    ) -> None:
        super().__init__(site)
        width = site.out_width
        self.attention = ResidualLayer(width, attention, slots, True, True, dropout)
        self.feed_forward = ResidualLayer(width, feed_forward, slots, True, True, dropout)

    def forward(self, x: Tensor, route: Route) -> Tensor:
        """x [R, L, d] → [R, L, d]."""
        layer: Callable[..., Tensor] = self.feed_forward
        return layer(self.attention(x, route), route)
