"""Reads an encoder by its family's table: its sites, and the longest row it accepts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from torch import nn

from weft.encoder.families import FAMILIES, Anatomy, Place
from weft.encoder.norms import is_norm, norm_eps, norm_width
from weft.encoder.sites import BLOCK_LINEAR, BLOCK_NORM, KINDS, LINEAR, NORM, OUTSIDE, Site, Sites
from weft.errors import WeftError


def find(root: nn.Module, path: str) -> tuple[str, nn.Module] | None:
    """Return the first alternative of `path` that exists under `root`, and its module."""
    for option in path.split("|"):
        try:
            module = root.get_submodule(option)
        except AttributeError:
            continue
        return option, module
    return None


def path_of(anatomy: Anatomy, kind: str) -> str | None:
    """Return the path of a site outside the blocks, from the root; None if the family has no such site."""
    place = anatomy.outside.get(kind)
    return place if place is None or isinstance(place, str) else place[0]


def anatomy_of(model: Any) -> Anatomy:
    """Return the table of the model's family; the error for an unknown family says what is missing."""
    config = getattr(model, "config", None)
    family = getattr(config, "model_type", None)
    if family is None:
        raise WeftError(f"expected a Hugging Face encoder; found {type(model).__name__} without a config")
    inner = getattr(model, "base_model", model)
    if inner is not model and family in FAMILIES:
        prefix = getattr(model, "base_model_prefix", "base_model")
        raise WeftError(f"{type(model).__name__} is an encoder with a head; pass the encoder: model.{prefix}")
    if family not in FAMILIES:
        raise WeftError(_unknown(model, str(family)))
    for key, name in (("chunk_size_feed_forward", "feed-forward in chunks"), ("is_decoder", "a decoder")):
        if getattr(config, key, False):
            raise WeftError(f"the encoder's configuration asks for {name} ({key}); set it to 0 or false")
    for key, value in FAMILIES[family].only.items():
        if getattr(config, key, value) != value:
            raise WeftError(
                f"the encoder's configuration has {key} = {getattr(config, key)!r}; "
                f"for the family {family!r} weft supports only {value!r}"
            )
    return FAMILIES[family]


def sites_of(model: Any) -> Sites:
    """Return all sites of a Hugging Face encoder."""
    anatomy = anatomy_of(model)
    config = model.config
    family: str = config.model_type
    width: int = config.hidden_size
    blocks = _blocks(model, anatomy)
    lacking = {kind: f"family {family!r} has none" for kind in KINDS if kind not in anatomy.in_block}
    lacking["ffn_hidden"] = f"family {family!r} has no 'ffn_out', whose input it would be"
    if anatomy.disentangled and not getattr(config, "relative_attention", False):
        lacking["scores"] = "without relative_attention its scores take no further term"
    sites = [Site("top", None, width, width, "")]
    for kind, place in anatomy.outside.items():
        sites += _site(model, "", kind, place, None, width, lacking)
    for number, block in enumerate(blocks):
        prefix = f"{anatomy.blocks}.{number}"
        sites.append(Site("block", number, width, width, prefix))
        for kind, place in anatomy.in_block.items():
            if kind != "scores" or "scores" not in lacking:
                sites += _site(block, prefix, kind, place, number, width, lacking)
            if kind == "ffn_out":  # its input is a site too, which no table has to list
                inner = sites[-1].in_width
                sites.append(Site("ffn_hidden", number, inner, inner, sites[-1].path))
    heads: int = config.num_attention_heads
    if anatomy.parts_by_head:
        sites = [replace(site, groups=heads) if site.part[1] > 1 else site for site in sites]
    # eps of the last norm in the blocks: the first may be an identity
    norms = [site.path for site in sites if site.kind in BLOCK_NORM]
    eps = norm_eps(model.get_submodule(norms[-1])) if norms else 1e-12
    return Sites(family, width, len(blocks), sites, lacking, anatomy.pre_norm, heads, eps)


def longest_row(model: Any) -> int | None:
    """Return the most tokens that a row may have; None if positions are relative or rotary.

    Args:
        model: a Hugging Face encoder of a known family.
    """
    anatomy = anatomy_of(model)
    located = find(model, anatomy.positions)
    if located is None or not isinstance(located[1], nn.Embedding):
        return None
    table = located[1]
    first = anatomy.first_position
    if first is None:
        # tables with a padding index number positions from there on: RoBERTa, MPNet, data2vec-text
        first = 0 if table.padding_idx is None else table.padding_idx + 1
    return table.num_embeddings - first


def _blocks(model: nn.Module, anatomy: Anatomy) -> nn.ModuleList:
    located = find(model, anatomy.blocks)
    if located is None or not isinstance(located[1], nn.ModuleList):
        raise WeftError(f"{type(model).__name__} has no list of blocks at {anatomy.blocks!r}")
    return located[1]


def _site(
    root: nn.Module,
    prefix: str,
    kind: str,
    place: Place,
    layer: int | None,
    width: int,
    lacking: dict[str, str],
) -> list[Site]:
    """Return the site of this kind, or an empty list if the module is missing or is not a map or norm."""
    path, index, parts = (place, 0, 1) if isinstance(place, str) else place
    located = find(root, path)
    if located is None:
        if kind in OUTSIDE:
            lacking[kind] = f"there is no module {path!r}"
            return []
        raise WeftError(f"layer {layer} has no module {path!r}, where its anatomy puts the site {kind!r}")
    option, module = located
    full = f"{prefix}.{option}" if prefix else option
    if kind in LINEAR:
        if not isinstance(module, nn.Linear):
            raise WeftError(f"{full} should be a linear map for site {kind!r}; it is {type(module).__name__}")
        return [Site(kind, layer, module.in_features, module.out_features // parts, full, (index, parts))]
    if kind in NORM:
        if not is_norm(module):
            lacking[kind] = f"{full} is {type(module).__name__}, not a norm"
            return []
        normed = norm_width(module)
        return [Site(kind, layer, normed, normed, full)]
    return [Site(kind, layer, width, width, full)]


def _unknown(model: nn.Module, family: str) -> str:
    """Describe which known family comes nearest to an unknown one, and how to add it."""
    lines = [f"encoder family {family!r} ({type(model).__name__}) has no anatomy, so its sites are unknown."]
    nearest: tuple[int, str, list[str]] | None = None
    for name in FAMILIES:
        anatomy = FAMILIES[name]
        located = find(model, anatomy.blocks)
        if located is None or not isinstance(located[1], nn.ModuleList) or not len(located[1]):
            continue
        missing = [
            kind
            for kind, place in anatomy.in_block.items()
            if find(located[1][0], place if isinstance(place, str) else place[0]) is None
        ]
        if nearest is None or len(missing) < nearest[0]:
            nearest = (len(missing), name, missing)
    if nearest is None:
        known = ", ".join(sorted({FAMILIES[name].blocks for name in FAMILIES}))
        lines.append(f"It has no list of blocks at any of: {known}.")
        lines.append(f"A table must say where the blocks are and, inside one, {', '.join(BLOCK_LINEAR)}, ….")
    elif nearest[0]:
        lines.append(f"It is nearest to {nearest[1]!r}, but lacks: {', '.join(nearest[2])}.")
    else:
        lines.append(f"It has every module of {nearest[1]!r}; if it computes in the same order, add it by")
        lines.append(f"  weft.encoder.register_family({family!r}, {nearest[1]!r})")
    lines.append(
        f"Known families: {', '.join(FAMILIES)}. To add one: 'An encoder family' in docs/extension.md."
    )
    return "\n".join(lines)
