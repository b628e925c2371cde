"""The method of merged updates: one set for all tasks, with exactly the sites that some task updates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from weft.encoder.anatomy import sites_of
from weft.encoder.sites import KINDS, Site, Sites
from weft.errors import WeftError
from weft.methods import Method
from weft.methods.bitfit import Bitfit
from weft.methods.lora import Lora
from weft.methods.lora_bitfit import LoraBitfit
from weft.methods.ranked import BIASES

if TYPE_CHECKING:
    from weft.bundle.sources import Source
    from weft.bundle.updates import TaskUpdates
    from weft.encoder.load import Encoder


def merged_method(
    updates: Sequence[TaskUpdates],
    encoder: Encoder,
    rank: int | None,
    sums: bool,
    sources: Sequence[Source],
) -> Method:
    """`lora`, `bitfit` or, with both kinds of updates, `lora_bitfit`, with `share: all`.

    The rank of a site is the sum of the tasks' ranks there, or `rank`; at most the smaller width, and if the
    update is a sum of those of the tasks, at most the sum of their ranks, with which it is exact.

    Args:
        updates: the updates of the tasks.
        encoder: the bare encoder.
        rank: the largest rank; None: the sum of the tasks' ranks.
        sums: whether the merged update is a weighted sum of those of the tasks.
        sources: the bundles, for messages.
    """
    weights = {site for task_updates in updates for site in task_updates.weights}
    biases = {site for task_updates in updates for site in task_updates.biases}
    if not weights and not biases:
        raise WeftError(
            f"{sources[0].manifest_path}: method {sources[0].method.name!r} updates no weight and no bias; "
            "there is nothing to merge: expected lora, lora_bitfit, bitfit, morris, full or separate"
        )
    sites = sites_of(encoder.model)
    layers = sorted({site.layer for site in (*weights, *biases) if site.layer is not None})
    every = len(layers) == sites.num_layers or not layers
    common: dict[str, Any] = {"share": "all", "layers": "all" if every else layers}
    if not weights:
        return Bitfit(**common, sites=_kinds(biases))
    settings = common | _ranks(updates, weights, sites, common["layers"], rank, sums)
    if not biases:
        return Lora(**settings)
    for site in biases:
        if site.kind not in BIASES["all"]:
            raise WeftError(
                f"a task updates the bias of {site.key!r}, which lora_bitfit does not have: it has those of "
                "the blocks; train with bitfit and biases: blocks (or dense), or with lora_bitfit"
            )
    named = next(name for name in ("dense", "all") if {site.kind for site in biases} <= set(BIASES[name]))
    return LoraBitfit(**settings, biases=named)


def _kinds(sites: set[Site]) -> tuple[str, ...]:
    return tuple(kind for kind in KINDS if any(site.kind == kind for site in sites))


def _ranks(
    updates: Sequence[TaskUpdates],
    weights: set[Site],
    sites: Sites,
    layers: Any,
    rank: int | None,
    sums: bool,
) -> dict[str, Any]:
    """The settings `sites`, `rank` and `rank_pattern`; a site that no task updates has rank 0."""
    kinds = _kinds(weights)
    ranks = {site.key: 0 for site in sites.available(kinds, layers)}
    for site in weights:
        total = sum(task_updates.factors(site)[0].size(1) for task_updates in updates)
        wanted = total if rank is None else min(rank, total) if sums else rank
        ranks[site.key] = min(wanted, site.out_width, site.in_width)
    largest = max((*ranks.values(), 1))
    pattern = {key: r for key, r in ranks.items() if r != largest}
    return {"sites": kinds, "rank": largest, "rank_pattern": pattern}
