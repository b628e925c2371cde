"""Counts the low-rank components that a model uses: by site, by layer, and in total."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple, TypedDict

from weft.adapters.ranked import RankedAdapter
from weft.methods.ranked import RankedSites

if TYPE_CHECKING:
    from weft.model.model import Model

NAMES = {"rank_pattern": "weights", "bias_rank_pattern": "biases"}


class Kept(NamedTuple):
    """The components in use at one site.

    Attributes:
        site: the site's key.
        layer: its block, None outside the blocks.
        what: `weights` or `biases`.
        kept: the number of components in use, over all slots with separate gates.
        total: the number of components by the method's rank.
    """

    site: str
    layer: int | None
    what: str
    kept: int
    total: int


class Sparsity(TypedDict):
    """The counts of a model: (kept, total) by layer, by site and in total, for weights and for biases."""

    layers: dict[str, dict[str, tuple[int, int]]]
    all: dict[str, tuple[int, int]]
    sites: dict[str, dict[str, tuple[int, int]]]


def kept_components(model: Model) -> list[Kept]:
    """Each site of each low-rank adapter; sites that a compacted model has left out are listed with 0."""
    components: list[Kept] = []
    parts = model.method.parts
    names = [task.name for task in model.tasks]
    for site, adapter in model.placements:
        if isinstance(adapter, RankedAdapter):
            full: int = getattr(parts[adapter.part], adapter.setting.removesuffix("_pattern"))
            live = adapter.live()
            # a compacted site has fewer components than the method's rank
            total = max(full, adapter.rank) * len(live)
            count = sum(len(numbers) for numbers in live)
            components.append(Kept(site.key, site.layer, NAMES[adapter.setting], count, total))
    for part in parts:
        if not isinstance(part, RankedSites):
            continue
        for setting, what in NAMES.items():
            for key, rank in getattr(part, setting, {}).items():
                if rank == 0:
                    layer = int(key.split("/")[0]) if "/" in key else None
                    total = part.component_sets(names) * getattr(part, setting.removesuffix("_pattern"))
                    components.append(Kept(key, layer, what, 0, total))
    return components


def sparsity(model: Model) -> Sparsity:
    """Count the components in use, by site, by layer and in total."""
    rows = kept_components(model)

    def added(chosen: Sequence[Kept]) -> dict[str, tuple[int, int]]:
        kinds = sorted({row.what for row in chosen}, reverse=True)  # weights, then biases
        return {
            what: (
                sum(r.kept for r in chosen if r.what == what),
                sum(r.total for r in chosen if r.what == what),
            )
            for what in kinds
        }

    layers = sorted({row.layer for row in rows if row.layer is not None})
    return Sparsity(
        layers={str(n): added([row for row in rows if row.layer == n]) for n in layers},
        all=added(rows),
        sites={
            key: added([row for row in rows if row.site == key])
            for key in dict.fromkeys(r.site for r in rows)
        },
    )


def in_words(account: Sparsity) -> str:
    """Format the totals in one line: `weights 412 of 1,536 (27 %), biases …`."""
    parts = [
        f"{what} {kept:,} of {total:,} ({100 * kept / total:.0f} %)"
        for what, (kept, total) in account["all"].items()
    ]
    return ", ".join(parts)
