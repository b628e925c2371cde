"""Multi-head self-attention with stacked parameters, for batches of several tasks."""

from __future__ import annotations

import math
from itertools import chain, count

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from weft.adapters.stacked import StackedLinear
from weft.core.route import Route
from weft.core.stacked import Slots
from weft.errors import WeftError
from weft.kernels.dispatch import is_half
from weft.kernels.grouped import ALIGNED


class StackedAttention(nn.Module):
    """MH(x) = W^o·[head_1, …, head_n], head = softmax(q·kᵀ/√(s/n) + mask)·v, with the maps of the row's slot.

    Query, key and value are one map [S, 3s, s] with its bias [S, 3s], in this order. Every token attends to
    all tokens of its row, even if the encoder's own attention is local; padding is masked.

    Args:
        width: s.
        heads: n, a divisor of s.
        slots: the slots of the maps.
        seed: the random seed of the initial values.
        place: its name in the model, which the initial values depend on.
        output: whether there is a W^o; PALs have none.
        dropout: dropout probability of the attention probabilities, in training.
        name: the key of its probabilities in `route.attention`.
    """

    def __init__(
        self,
        width: int,
        heads: int,
        slots: Slots,
        seed: int,
        place: str,
        output: bool = False,
        dropout: float = 0.0,
        name: str = "",
    ) -> None:
        super().__init__()
        if width % heads:
            fitting = [n for n in range(1, width + 1) if width % n == 0]
            near = sorted(sorted(fitting, key=lambda n: abs(n - heads))[:4])
            raise WeftError(
                f"an attention of width {width} cannot have {heads} heads; "
                f"expected a divisor of {width}, such as {', '.join(map(str, near))}"
            )
        self.heads = heads
        self.dropout = dropout
        self.name = name
        self.qkv = StackedLinear(width, 3 * width, slots, seed, f"{place}/qkv")
        self.out = StackedLinear(width, width, slots, seed, f"{place}/out") if output else None

    def forward(self, x: Tensor, route: Route) -> Tensor:
        """x [R, L, s] → [R, L, s]."""
        width = x.size(-1) // self.heads
        more = head_padding(width, x)
        qkv = self._qkv(x, route, more).unflatten(-1, (3, self.heads, -1))  # [R, L, 3, n, s/n]
        query, key, value = qkv.permute(2, 0, 3, 1, 4)  # each [R, n, L, s/n]
        mask = None if route.attention_mask is None else route.attention_mask[:, None, None, :]
        if route.attention is not None:
            route.attention[self.name] = _probabilities(query[..., :width], key[..., :width], mask)
        dropout = self.dropout if self.training else 0.0
        mixed = F.scaled_dot_product_attention(
            query, key, value, attn_mask=mask, dropout_p=dropout, scale=1 / math.sqrt(width)
        )
        mixed = mixed[..., :width].transpose(1, 2).flatten(2)  # [R, L, s]
        return mixed if self.out is None else self.out(mixed, route)

    def _qkv(self, x: Tensor, route: Route, more: int) -> Tensor:
        """[R, L, s] → [R, L, 3·(s + n·more)], each head's part padded with `more` zeros.

        The weight is padded, not its result: the weight is small, the result is not.
        """
        if not more:
            mapped: Tensor = self.qkv(x, route)
            return mapped
        parts = (3 * self.heads, x.size(-1) // self.heads)
        weight, bias = (self.qkv.get_parameter(name).unflatten(1, parts) for name in ("weight", "bias"))
        weight, bias = F.pad(weight, (0, 0, 0, more)).flatten(1, 2), F.pad(bias, (0, more)).flatten(1, 2)
        return self.qkv.mapped(x, "weight", route, "bias", weight, bias)


def head_padding(width: int, x: Tensor) -> int:
    """Return how many zeros a head of this width needs for a fused attention kernel.

    On CUDA in half precision, torch uses a fused kernel with a mask only if the width is a multiple of 8.
    """
    return -width % ALIGNED if x.is_cuda and is_half(x) else 0


def _probabilities(query: Tensor, key: Tensor, mask: Tensor | None) -> Tensor:
    """softmax(q·kᵀ/√h), [R, n, L, L], which the fused attention computes but does not return."""
    scores = query.float() @ key.float().transpose(-1, -2) / math.sqrt(query.size(-1))
    if mask is not None:
        scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
    return scores.softmax(-1).detach()


def name_attentions(adapters: nn.Module) -> None:
    """Make the names of all attentions of a model unique: further ones at a site get a number."""
    taken: set[str] = set()
    for module in adapters.modules():
        if isinstance(module, StackedAttention):
            numbered = (f"{module.name}.{number}" for number in count(2))
            module.name = next(name for name in chain([module.name], numbered) if name not in taken)
            taken.add(module.name)
