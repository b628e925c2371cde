"""A model's adapters as one module, under the names that its parameters have."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from torch import nn

if TYPE_CHECKING:
    from weft.adapters.adapter import Adapter
    from weft.encoder.sites import Site


def by_site(pairs: Sequence[tuple[Site, Adapter]]) -> nn.ModuleDict:
    """The adapters by site and, within a site, by their position."""
    found: dict[str, nn.ModuleList] = {}
    for site, adapter in pairs:
        found.setdefault(site.key, nn.ModuleList()).append(adapter)
    return nn.ModuleDict(found)
