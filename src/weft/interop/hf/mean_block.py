"""A further block that computes the mean of the tokens, for classes that read the first token only.

u are the last block's outputs, normalized, without the weight w and the bias b of its norm: h = w⊙u + b. The
norm gets the weight c and the bias 0, so that c·u enters the further block. There

- queries and keys are 0, so the attention of every token is uniform over the tokens that are not masked;
- values are m·c·u, so that what is added to c·u is m·c·ū, ū the mean of u over the row's tokens;
- the first norm sees x = m·c·ū + c·u. Its variance is far below the norm's ε, so that the norm is x/√ε, and
  m is so large that c·u is lost in rounding. The mean of x over the features is 0, as that of u is;
- the feed-forward network is 0, and the second norm scales what is left to w⊙ū + b, the mean of h.

m and c are powers of two. float32 and bfloat16 have the range for them; float16 does not.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import nn

from weft.encoder.anatomy import anatomy_of, find
from weft.encoder.norms import norm_eps
from weft.encoder.sites import BLOCK_NORM

FAMILIES = frozenset(
    {"bert", "camembert", "data2vec-text", "distilbert", "electra", "ernie", "rembert", "roberta", "roformer"}
    | {"xlm-roberta"}
)
"""Families whose blocks end in a layer norm, and whose attention has no term besides queries and keys."""

RESIDUAL = 2.0**24
"""m: how many times larger the mean is than the block's input beside it."""

VARIANCE = 1e-8
"""The largest variance that a norm of the block sees, as a part of its ε."""

NOTE = (
    "the last block is not part of the trained encoder: it computes the mean of the tokens, which the head "
    "reads, by numbers as small as 10⁻¹⁸"
)
"""How the mean was made, for the card."""

_MAPS = ("query", "key", "value", "attention_out", "ffn_in", "ffn_out")


@torch.no_grad()
def write_mean_block(encoder: Any) -> None:
    """Make the last block of an encoder compute the mean of the outputs of the one before it, in place.

    Args:
        encoder: a Hugging Face encoder of `FAMILIES` with at least two blocks; the weights of the last one
            are replaced.
    """
    anatomy = anatomy_of(encoder)
    *_, before, block = encoder.get_submodule(anatomy.blocks)
    last, first_norm, second_norm = (
        _module(owner, anatomy.in_block[kind])
        for owner, kind in ((before, BLOCK_NORM[-1]), *((block, kind) for kind in BLOCK_NORM))
    )
    for kind in _MAPS:
        linear = _module(block, anatomy.in_block[kind])
        nn.init.zeros_(linear.weight)
        nn.init.zeros_(linear.bias)
    small = 2.0 ** math.floor(math.log2((VARIANCE * norm_eps(first_norm)) ** 0.5))  # m·c
    nn.init.eye_(_module(block, anatomy.in_block["value"]).weight).mul_(RESIDUAL)
    nn.init.eye_(_module(block, anatomy.in_block["attention_out"]).weight)
    nn.init.constant_(first_norm.weight, norm_eps(first_norm) ** 0.5)
    nn.init.zeros_(first_norm.bias)
    second_norm.weight.copy_(last.weight.double() * norm_eps(second_norm) ** 0.5 / small)
    second_norm.bias.copy_(last.bias)
    nn.init.constant_(last.weight, small / RESIDUAL)
    nn.init.zeros_(last.bias)


def _module(block: nn.Module, place: Any) -> Any:
    located = find(block, place if isinstance(place, str) else place[0])
    assert located is not None, place
    return located[1]
