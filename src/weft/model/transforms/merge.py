"""Merging: folds one task's adapters into the encoder's weights, so they cost nothing at inference."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from weft.encoder.anatomy import anatomy_of, sites_of
from weft.encoder.sites import LINEAR, NORM, Site
from weft.encoder.weave import unweave
from weft.errors import WeftError

if TYPE_CHECKING:
    from weft.adapters.adapter import Adapter

MERGED = (*LINEAR, *NORM, "ffn_hidden")
"""The kinds of site whose adapters may be merged; at `ffn_hidden` into the map that reads the value."""


def can_merge(site: Site, adapter: Adapter) -> bool:
    """Return whether an adapter at this site changes nothing but a weight and a bias."""
    return site.kind in MERGED and adapter.can_merge()


@torch.no_grad()
def merge(encoder: nn.Module, pairs: Sequence[tuple[Site, Adapter]], task: int) -> nn.Module:
    """Return a plain Hugging Face encoder that computes what the woven one computes for one task.

    If an adapter adds a vector where the base has no bias, the base gets a bias, and its configuration is
    changed accordingly.

    Args:
        encoder: the woven encoder, which is not changed.
        pairs: its adapters and their sites.
        task: the task's id.
    """
    for site, adapter in pairs:
        if not can_merge(site, adapter):
            raise WeftError(f"{type(adapter).__name__} at {site.key!r} cannot be merged: {adapter.unmerged}")
    plain = unweave(copy.deepcopy(encoder))
    # what changes the input of a map comes last: it applies to what the map's own adapters add as well
    for site, adapter in sorted(pairs, key=lambda pair: pair[0].kind == "ffn_hidden"):
        module: Any = plain.get_submodule(site.path)
        index, parts = site.part
        weight = _part(module.get_parameter("weight"), index, parts)
        bias = None if module.bias is None else _part(module.get_parameter("bias"), index, parts)
        new_weight, new_bias = adapter.merge_into(task, weight, bias)
        weight.copy_(new_weight)
        if new_bias is not None:
            if bias is None:
                _give_biases(plain, site.kind)
            _part(module.get_parameter("bias"), index, parts).copy_(new_bias)
    return plain.requires_grad_(False).eval()


def _give_biases(plain: Any, kind: str) -> None:
    """Add zero biases to all modules that share this site's configuration flag, and set the flag."""
    flags = anatomy_of(plain).bias_flags
    # query, key and value are one module, listed once
    kind = "query" if kind in ("key", "value") else kind
    flag = next(name for name, kinds in flags.items() if kind in kinds)
    setattr(plain.config, flag, True)
    for site in sites_of(plain).available(flags[flag]):
        module: Any = plain.get_submodule(site.path)
        if module.bias is None:
            weight = module.get_parameter("weight")
            module.bias = nn.Parameter(weight.new_zeros(weight.size(0)))


def _part(parameter: Tensor, index: int, parts: int) -> Tensor:
    return parameter.chunk(parts, dim=0)[index]
