"""An adapter that keeps what it saw."""

from __future__ import annotations

from weft.adapters import Adapter
from weft.encoder.sites import KINDS, VALUE, Site


class Probe(Adapter):
    """Does what it is told, and keeps what it saw."""

    fits = KINDS
    reads = ("attention_input", "after_attention", "ffn_input")

    def __init__(self, site: Site, act=None) -> None:
        super().__init__(site)
        self.act = act or (lambda x, route: x if site.kind in VALUE else None)
        self.seen: list = []

    def forward(self, x, route):
        self.seen.append((x, route.block_input, route.after_attention))
        return self.act(x, route)
