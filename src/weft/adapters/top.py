"""Per-task layers on top of the encoder: a stack of small layers, or a whole encoder layer."""

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
    """x ← LN_t(x + dropout(g(x))), with an optional residual and an optional norm.

    Args:
        width: s.
        inner: g, [R, L, s] → [R, L, s].
        slots: the slots of the norm.
        residual: whether x is added.
        norm: whether the sum is normalized.
        dropout: dropout probability of g's result, in training.
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
    """v ← V_D·g_n(… g_1(V_E·v)): replaces the last hidden states, without a residual around it (PALs, eq. 7).

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
    """v ← LN2_t(a + FFN_t(a)), a = LN1_t(v + MH_t(v)): one BERT layer per task, in every family.

    In a pre-norm encoder, too, `top` follows the last norm: input and output are normalized in every family.
    The layer has neither DeBERTa's relative positions nor ModernBERT's rotary ones.

    Args:
        site: `top`.
        attention: MH_t, with its W^o.
        feed_forward: FFN_t.
        slots: the slots of the norms.
        dropout: dropout probability of each sub-layer's result, in training.
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
