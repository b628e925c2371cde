"""Weaves adapters into a Hugging Face encoder without changing its classes, names or state dict.

Each woven module instance gets a `forward` attribute that holds the original bound method and the site's
adapters. No module is replaced, since Hugging Face finds its layers by class. No hook is registered, since
torch silently reuses the compiled graph of a plain encoder for a hooked one of the same class.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from torch import nn

from weft.core.route import Memory, RouteHolder
from weft.encoder.checkpointing import RoutedCheckpoint, RoutedEnable, plain_forward
from weft.encoder.deberta import RELATIVE_TERMS, weave_disentangled
from weft.encoder.families import Anatomy
from weft.encoder.from_lengths import drop_from_lengths, keep_from_lengths
from weft.encoder.sites import LINEAR, NORM, Site, Sites
from weft.encoder.woven import (
    Remember,
    WovenInput,
    WovenLinear,
    WovenNorm,
    WovenScores,
    WovenValue,
)
from weft.encoder.woven_block import BlockForm, WovenBlock
from weft.errors import WeftError

if TYPE_CHECKING:
    from weft.adapters.adapter import Adapter


BY_LENGTH, IN_TILES, TOGETHER = "weft", "weft-in-tiles", "together"
"""Names of the attentions that engines use instead of `sdpa`; the attribute of a fused self-attention."""

Memories = Mapping[str, tuple[tuple[Memory, ...], tuple[Memory, ...]]]

POST_NORM: Memories = {"norm_1": ((), ("after_attention", "ffn_input"))}
PRE_NORM: Memories = {
    "norm_1": ((), ("attention_input",)),
    "norm_2": (("after_attention",), ("ffn_input",)),
}
"""What a route stores at each norm of a block: the names for its input, and the names for its output."""


def weave(
    encoder: nn.Module,
    anatomy: Anatomy,
    sites: Sites,
    pairs: Iterable[tuple[Site, Adapter]],
    holder: RouteHolder,
) -> None:
    """Weave the adapters into the encoder at their sites; several at one site run in their order.

    The embeddings and every block are always woven: there the route stores the block's input and collects
    the layers' outputs.
    """
    at: dict[Site, list[Adapter]] = {}
    for site, adapter in pairs:
        at.setdefault(site, []).append(adapter)
    # before anything is changed: an encoder that is rejected must stay as it was
    if any(site.kind == "scores" for site in at) and not anatomy.disentangled:
        _check_attention(encoder)
    _check_scales(at)
    wanted = {(s.layer, name) for s, adapters in at.items() for a in adapters for name in a.reads}
    form = BlockForm()
    fused: dict[str, tuple[list[list[Adapter]], int]] = {}
    for site in sites:
        adapters = at.get(site, [])
        if site.kind in LINEAR and adapters:
            linear: Any = encoder.get_submodule(site.path)
            for adapter in adapters:
                adapter.bind_map(linear)
            parts, _ = fused.setdefault(site.path, ([[] for _ in range(site.part[1])], site.groups))
            parts[site.part[0]] += sorted(adapters, key=lambda adapter: not adapter.scales)
    for path, (parts, groups) in fused.items():
        _around(encoder, path, WovenLinear, holder, parts, groups)
    for site in sites:
        adapters = at.get(site, [])
        if site.kind in NORM:
            if adapters:
                norm = encoder.get_submodule(site.path)
                for adapter in adapters:
                    adapter.bind_norm(norm)
                _around(encoder, site.path, WovenNorm, holder, adapters, norm)
            entering, leaving = (
                [name for name in names if (site.layer, name) in wanted]
                for names in (PRE_NORM if anatomy.pre_norm else POST_NORM).get(site.kind, ((), ()))
            )
            if entering or leaving:
                _around(encoder, site.path, Remember, holder, entering, leaving)
        elif site.kind == "scores" and not anatomy.disentangled:
            if adapters:
                _around(encoder, site.path, WovenScores, holder, adapters)
        elif site.kind == "ffn_hidden":
            if adapters:  # around the map's own adapters, which read what these return
                _around(encoder, site.path, WovenInput, holder, adapters)
        elif site.kind in ("attention_delta", "ffn_delta") and adapters:
            _around(encoder, site.path, WovenValue, holder, adapters)
        elif site.kind == "embeddings":
            # DeBERTa zeroes padding here, because its convolution reads across the edge
            _around(encoder, site.path, WovenValue, holder, adapters, 0, anatomy.disentangled)
        elif site.kind == "block":
            assert site.layer is not None
            # the output of a module between block 0 and 1 is what Hugging Face calls block 0's hidden states
            late = site.layer == 0 and anatomy.after_first_block and _has(encoder, anatomy.after_first_block)
            collect = None if late else site.layer + 1
            block: Any = encoder.get_submodule(site.path)
            woven = WovenBlock(plain_forward(block), block, holder, adapters, collect, site.layer, form)
            woven.repeats = anatomy.repeats
            block.forward = woven.__call__
            if late:
                assert anatomy.after_first_block is not None
                _around(encoder, anatomy.after_first_block, WovenValue, holder, [], 1)
    if anatomy.disentangled:
        weave_disentangled(encoder, sites, at, holder)
    keep_from_lengths(encoder, anatomy.from_lengths)
    whole: Any = encoder
    whole.gradient_checkpointing_enable = RoutedEnable(whole.gradient_checkpointing_enable, encoder, holder)


def unweave(encoder: nn.Module) -> nn.Module:
    """Remove all adapters; the encoder is then Hugging Face's own, as it was loaded."""
    for module in encoder.modules():
        for name in ("forward", TOGETHER, *RELATIVE_TERMS, "gradient_checkpointing_enable"):
            module.__dict__.pop(name, None)
        drop_from_lengths(module)
        checkpoint = module.__dict__.get("_gradient_checkpointing_func")
        if isinstance(checkpoint, RoutedCheckpoint):
            module.__dict__["_gradient_checkpointing_func"] = checkpoint.plain
    config: Any = getattr(encoder, "config", None)
    # the encoder may be a copy of one that an engine runs
    if getattr(config, "_attn_implementation", None) in (BY_LENGTH, IN_TILES):
        config._attn_implementation = "sdpa"
    return encoder


def is_woven(encoder: nn.Module) -> bool:
    """Return whether the encoder is already part of a model."""
    return any(isinstance(woven_of(m), WovenBlock) for m in encoder.modules())


def woven_of(module: nn.Module) -> Any:
    """Return the outermost object that a module was woven with; None if it was not woven."""
    return getattr(module.__dict__.get("forward"), "__self__", None)


def innermost_woven(module: nn.Module) -> Any:
    """Return the object whose `inner` is the module's own computation; None if the module was not woven.

    A module may be two sites, a linear map and the value that it returns.
    """
    woven = woven_of(module)
    while woven is not None and getattr(woven.inner, "__self__", module) is not module:
        woven = woven.inner.__self__
    return woven


def _around(encoder: nn.Module, path: str, kind: Callable[..., Any], *rest: Any) -> None:
    module: Any = encoder.get_submodule(path)
    # a bound method: a compiled block guards on its function, which all blocks have in common; it would guard
    # on the identity of a callable object, and recompile each block
    module.forward = kind(module.forward, *rest).__call__


def _has(encoder: nn.Module, path: str) -> bool:
    try:
        encoder.get_submodule(path)
    except AttributeError:
        return False
    return True


def _check_scales(at: Mapping[Site, Sequence[Adapter]]) -> None:
    """Refuse two adapters that rescale one map: each would rescale what the other has changed."""
    for site, adapters in at.items():
        names = [type(adapter).__name__ for adapter in adapters if adapter.scales]
        if len(names) > 1:
            raise WeftError(
                f"method: two parts rescale the map at {site.key!r} ({', '.join(names)}); give them "
                "different sites or layers"
            )


def _check_attention(encoder: Any) -> None:
    implementation = encoder.config._attn_implementation
    if implementation not in ("eager", "sdpa"):
        raise WeftError(
            f"the site 'scores' adds a term to the attention scores, which attention {implementation!r} "
            "does not support; load the encoder with attention 'sdpa' or 'eager'"
        )
