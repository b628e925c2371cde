"""DeBERTa's relative positions for batches of several tasks.

DeBERTa adds the terms content→position and position→content to the scores, computed from one table of
relative embeddings for the whole batch. weft replaces this computation for two reasons. Under
`share_att_key` the table passes through the query and key maps, which differ by row once they have adapters.
And DeBERTa's mask is boolean, so a further term of the scores can only be added here. The first version of
DeBERTa (v1) computes the terms a little differently from the later ones (v2 and v3).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from weft.core.route import RouteHolder
from weft.encoder.sites import Site, Sites

if TYPE_CHECKING:
    from weft.adapters.adapter import Adapter

RELATIVE_TERMS = ("disentangled_attention_bias", "disentangled_att_bias")
"""The method of an attention that computes the relative terms: in DeBERTa v2 and v3, and in v1."""


def weave_disentangled(
    encoder: nn.Module, sites: Sites, at: Mapping[Site, Sequence[Adapter]], holder: RouteHolder
) -> None:
    """Replace the relative terms of each attention whose maps or scores have adapters; in v1, of all.

    The first version slices its table by a tensor, which neither the compiler nor a CUDA graph can follow.
    """
    by_place = {(s.kind, s.layer): s for s in sites}
    for layer in range(sites.num_layers):
        scores = by_place.get(("scores", layer))
        if scores is None:
            continue
        adapters = at.get(scores, [])
        attention: Any = encoder.get_submodule(scores.path)
        if hasattr(attention, RELATIVE_TERMS[1]):
            attention.disentangled_att_bias = FirstRelativeTerms(attention, adapters, holder)
            continue
        mapped = any(at.get(by_place[kind, layer]) for kind in ("query", "key"))
        if adapters or (mapped and attention.share_att_key):
            attention.disentangled_attention_bias = RelativeTerms(attention, adapters, holder)


class RelativeTerms:
    """The relative terms of one attention, plus Σ adapter(x) on the scores.

    Shapes: H heads, head width h, 2s relative distances; query and key are [R·H, L, h].
    """

    def __init__(self, attention: Any, adapters: Sequence[Adapter], holder: RouteHolder) -> None:
        self.attention = attention
        self.adapters = adapters
        self.holder = holder

    def __call__(
        self, query: Tensor, key: Tensor, relative: Tensor, table: Tensor, scale_factor: int
    ) -> Tensor | int:
        """The terms [R·H, L, L]; `relative` is [1, L, L], `table` [≥ 2s, d]."""
        attention = self.attention
        span: int = attention.pos_ebd_size
        distance = relative.view(relative.shape[-2:])  # [L, L], the same for every row
        table = table[None, : 2 * span]  # [1, 2s, d]
        # rounded to the scores' dtype before the division, as Hugging Face does
        scale = torch.tensor(math.sqrt(query.size(-1) * scale_factor)).to(query.dtype)
        shared = attention.share_att_key
        score: Tensor | int = 0
        if "c2p" in attention.pos_att_type:
            position_key = self._heads(
                (attention.key_proj if shared else attention.pos_key_proj)(table), query
            )
            index = (distance + span).clamp(0, 2 * span - 1)
            score = score + self._looked_up(query, position_key, index) / scale
        if "p2c" in attention.pos_att_type:
            maps = attention.query_proj if shared else attention.pos_query_proj
            index = (span - distance).clamp(0, 2 * span - 1)
            score = (
                score + self._looked_up(key, self._heads(maps(table), query), index).transpose(1, 2) / scale
            )
        heads: int = attention.num_attention_heads
        for term in _terms(self.adapters, self.holder):
            term = term.expand(query.size(0) // heads, heads, -1, -1)
            score = score + term.flatten(0, 1).to(query.dtype)
        return score

    def _heads(self, mapped: Tensor, query: Tensor) -> Tensor:
        """[1 or R, 2s, H·h] → [R·H, 2s, h]."""
        heads: int = self.attention.num_attention_heads
        rows = query.size(0) // heads
        split = mapped.unflatten(-1, (heads, -1)).transpose(1, 2)  # [1 or R, H, 2s, h]
        return split.expand(rows, -1, -1, -1).reshape(rows * heads, *split.shape[-2:])

    @staticmethod
    def _looked_up(content: Tensor, position: Tensor, index: Tensor) -> Tensor:
        """out[b, i, j] = content[b, i] · position[b, index[i, j]], [R·H, L, L]."""
        products = torch.bmm(content, position.transpose(1, 2))  # [R·H, L, 2s]
        return products.gather(-1, index.expand(content.size(0), -1, -1))


class FirstRelativeTerms:
    """The relative terms of one attention of DeBERTa v1, plus Σ adapter(x) on the scores.

    The positions have maps of their own. Shapes: H heads, head width h, span s ≤ L; query and key are
    [R, H, L, h].
    """

    def __init__(self, attention: Any, adapters: Sequence[Adapter], holder: RouteHolder) -> None:
        self.attention = attention
        self.adapters = adapters
        self.holder = holder

    def __call__(
        self, query: Tensor, key: Tensor, relative: Tensor, table: Tensor, scale_factor: int
    ) -> Tensor | int:
        """The terms [R, H, L, L]; `relative` is [1, L, L], `table` [2 · most distant, d]."""
        attention = self.attention
        most: int = attention.max_relative_positions
        span = min(query.size(-2), most)
        distance = relative.view(relative.shape[-2:])  # [L, L], the same for every row
        table = table[None, most - span : most + span]  # [1, 2s, d]
        score: Tensor | int = 0
        if "c2p" in attention.pos_att_type:
            position_key = self._heads(attention.pos_proj(table))
            index = (distance + span).clamp(0, 2 * span - 1)
            score = score + self._looked_up(query, position_key, index)
        if "p2c" in attention.pos_att_type:
            # a square root in float32, as Hugging Face takes it
            scale = torch.sqrt(torch.tensor(float(query.size(-1))) * scale_factor)
            position_query = self._heads(attention.pos_q_proj(table))
            position_query = (position_query / scale).to(key.dtype)
            index = (span - distance).clamp(0, 2 * span - 1)
            score = score + self._looked_up(key, position_query, index).transpose(-1, -2)
        for term in _terms(self.adapters, self.holder):
            score = score + term.to(query.dtype)
        # under autocast the query is wider than the products: Hugging Face masks by the lowest number of the
        # query's dtype, which the scores must be able to hold
        return score.to(query.dtype) if isinstance(score, Tensor) else score

    def _heads(self, mapped: Tensor) -> Tensor:
        """[1, 2s, H·h] → [1, H, 2s, h]."""
        return mapped.unflatten(-1, (self.attention.num_attention_heads, -1)).transpose(1, 2)

    @staticmethod
    def _looked_up(content: Tensor, position: Tensor, index: Tensor) -> Tensor:
        """out[r, h, i, j] = content[r, h, i] · position[0, h, index[i, j]], [R, H, L, L]."""
        products = torch.matmul(content, position.transpose(-1, -2))  # [R, H, L, 2s]
        return products.gather(-1, index.expand(*products.shape[:2], -1, -1))


def _terms(adapters: Sequence[Adapter], holder: RouteHolder) -> list[Tensor]:
    """Return the further terms of the scores, [R or 1, H or 1, L, L] each."""
    route = holder.adapting
    if route is None:
        return []
    assert route.block_input is not None or not adapters
    terms = [adapter(route.block_input, route) for adapter in adapters]
    return [term for term in terms if term is not None]
