"""Hugging Face encoders: finding and loading them, and weaving adapters in at their sites."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.utils.lazy import lazy

if TYPE_CHECKING:
    from weft.encoder.anatomy import sites_of
    from weft.encoder.families import Anatomy, register_family
    from weft.encoder.load import Encoder, load_encoder
    from weft.encoder.sites import Site, Sites

__all__ = ["Anatomy", "Encoder", "Site", "Sites", "load_encoder", "register_family", "sites_of"]

__getattr__, __dir__ = lazy(
    __name__,
    {
        "Anatomy": "weft.encoder.families",
        "Encoder": "weft.encoder.load",
        "Site": "weft.encoder.sites",
        "Sites": "weft.encoder.sites",
        "load_encoder": "weft.encoder.load",
        "register_family": "weft.encoder.families",
        "sites_of": "weft.encoder.anatomy",
    },
)
