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
    updates = []
    for site, adapter in pairs:
        update = adapter.weight_delta(task) if site.kind in (*LINEAR, *NORM) else None
        if update is None:
            raise WeftError(
                f"{type(adapter).__name__} at {site.key!r} cannot be merged: "
                "it is not an addition to a weight or a bias"
            )
        updates.append((site, update))
    plain = unweave(copy.deepcopy(encoder))
    for site, (weight, bias) in updates:
        module: Any = plain.get_submodule(site.path)
        index, parts = site.part
        if weight is not None:
            _part(module.get_parameter("weight"), index, parts).add_(weight)
        if bias is not None:
            if module.bias is None:
                _give_biases(plain, site.kind)
            _part(module.get_parameter("bias"), index, parts).add_(bias)
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
