"""Merging: folds one task's adapters into the encoder's weights, so they cost nothing at inference."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

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
    changed accordingly; if the family's configuration has no setting for it, this is refused.

    Args:
        encoder: the woven encoder, which is not changed.
        pairs: its adapters and their sites.
        task: the task's id.
    """
    for site, adapter in pairs:
        if not can_merge(site, adapter):
            raise WeftError(f"the adapter at {site.key!r} cannot be merged: {adapter.unmerged}")
        if not can_have_bias(encoder, site) and adds_bias(encoder, site, adapter, task):
            raise WeftError(
                f"the bias at {site.key!r} cannot be merged: {site.path} has no bias, and the configuration "
                f"of {encoder.config.model_type} encoders has no setting that would add one"  # type: ignore[union-attr]
            )
    plain = unweave(copy.deepcopy(encoder))
    # what changes the input of a map comes last: it applies to what the map's own adapters add as well
    for site, adapter in sorted(pairs, key=lambda pair: pair[0].kind == "ffn_hidden"):
        module: Any = plain.get_submodule(site.path)
        weight = module.get_parameter("weight")
        bias = getattr(module, "bias", None)
        of_site = None if bias is None else site.rows(bias).clone()
        new_weight, new_bias = adapter.merge_into(task, site.rows(weight).clone(), of_site)
        site.set_rows(weight, new_weight)
        if new_bias is not None:
            if bias is None:
                _give_biases(plain, site)
            site.set_rows(module.get_parameter("bias"), new_bias)
    return plain.requires_grad_(False).eval()


@torch.no_grad()
def adds_bias(encoder: nn.Module, site: Site, adapter: Adapter, task: int) -> bool:
    """Return whether merging an adapter into a map without a bias would give it one."""
    weight = encoder.get_submodule(site.path).get_parameter("weight")
    return adapter.merge_into(task, site.rows(weight), None)[1] is not None


def can_have_bias(encoder: nn.Module, site: Site) -> bool:
    """Return whether a site's module has a bias, or the encoder's configuration has a flag for one."""
    module = encoder.get_submodule(site.path)
    return getattr(module, "bias", None) is not None or _bias_flag(encoder, site) is not None


def _bias_flag(encoder: nn.Module, site: Site) -> str | None:
    """Return the setting of the configuration that gives this site's module a bias."""
    # query, key and value may be one module, listed once
    kind = "query" if site.kind in ("key", "value") else site.kind
    return next((name for name, kinds in anatomy_of(encoder).bias_flags.items() if kind in kinds), None)


def _give_biases(plain: Any, at: Site) -> None:
    """Add zero biases to all modules that share this site's configuration flag, and set the flag."""
    flag = _bias_flag(plain, at)
    assert flag is not None, "`merge` has checked `can_have_bias`"
    flags = anatomy_of(plain).bias_flags
    setattr(plain.config, flag, True)
    for site in sites_of(plain).available(flags[flag]):
        module: Any = plain.get_submodule(site.path)
        if module.bias is None:
            weight = module.get_parameter("weight")
            module.bias = nn.Parameter(weight.new_zeros(weight.size(0)))
