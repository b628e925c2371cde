"""Reinitializes the weights of a block, as in a newly created encoder."""

from __future__ import annotations

import torch
from torch import nn

from weft.core.stacked import ENCODER
from weft.encoder.anatomy import anatomy_of
from weft.encoder.norms import is_norm
from weft.utils.seeding import generator

STD = 0.02
"""BERT's standard deviation of initial weights, used if the configuration has none."""


@torch.no_grad()
def restart_block(encoder: nn.Module, layer: int, seed: int) -> None:
    """Reinitialize a block: weights N(0, std²), biases 0, norms the identity.

    Args:
        encoder: a Hugging Face encoder.
        layer: the block's number.
        seed: the random seed.
    """
    blocks = encoder.get_submodule(anatomy_of(encoder).blocks)
    block: nn.Module = blocks[layer]  # type: ignore[index]
    std = getattr(encoder.config, "initializer_range", None) or STD
    for path, module in block.named_modules():
        for name, parameter in module.named_parameters(recurse=False):
            if parameter.is_meta:
                continue
            if name.endswith("bias"):  # q_bias, v_bias of DeBERTa's first version
                parameter.zero_()
            elif is_norm(module):
                parameter.fill_(1.0)
            else:
                value = torch.empty(parameter.shape, device="cpu")
                value.normal_(0.0, std, generator=generator(seed, ENCODER, f"{layer}/{path}", name))
                parameter.copy_(value)
