"""Puts a model's adapters into one module, which determines their parameters' names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from torch import nn

if TYPE_CHECKING:
    from weft.adapters.adapter import Adapter
    from weft.encoder.sites import Site


def by_site(pairs: Sequence[tuple[Site, Adapter]]) -> nn.ModuleDict:
    """Return the adapters by site and, within a site, by their position."""
    adapters: dict[str, nn.ModuleList] = {}
    for site, adapter in pairs:
        adapters.setdefault(site.key, nn.ModuleList()).append(adapter)
    return nn.ModuleDict(adapters)
