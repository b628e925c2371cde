"""The parts of `ca_mtl` at their sites. Imported when a model is built: the settings need no torch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from weft.adapters.alignment import FilmAlignment, MatrixAlignment, TaskAlignment
from weft.adapters.conditional_attention import ConditionalAttention, block_size
from weft.adapters.conditional_bottleneck import (
    BlockBottleneck,
    Bottleneck,
    FilmBottleneck,
    ModulatedBottleneck,
    SkipPath,
)
from weft.adapters.conditional_norm import ConditionalNorm, OwnConditionalNorm
from weft.adapters.film import Film
from weft.adapters.stacked import StackedLinear
from weft.adapters.task_embedding import TaskEmbedding, TransformedEmbedding
from weft.core.stacked import Slots
from weft.encoder.sites import BLOCK_NORM, Site, Sites

if TYPE_CHECKING:
    from weft.adapters.adapter import Adapter
    from weft.methods.ca_mtl import CaMtl

Pairs = Iterator[tuple[Site, "Adapter"]]


class Parts:
    """Builds the adapters of `ca_mtl` for one encoder.

    Args:
        method: the settings.
        sites: the encoder's sites.
        tasks: the tasks' names, in the order of their ids.
        seed: the random seed of the initial values.
    """

    def __init__(self, method: CaMtl, sites: Sites, tasks: Sequence[str], seed: int) -> None:
        self.method, self.sites, self.seed = method, sites, seed
        self.per_task, self.shared = Slots.per_task(tasks), Slots.one(tasks)
        width = sites.width
        # z and z' only if some part reads them: unused parameters must not train, nor be counted
        if method.embeds:
            self.z = TaskEmbedding(width, self.per_task, seed, "ca_mtl")
        if method.transforms:
            self.condition = TransformedEmbedding(self.z, width, self.shared, seed, "ca_mtl/transform")

    def alignment(self) -> Pairs:
        """The alignment of the first block's input."""
        form = self.method.alignment
        for site in self.sites.select(["embeddings"]) if form != "none" else ():
            if form == "task":
                yield site, TaskAlignment(site, self.per_task)
            elif form == "film":
                yield site, FilmAlignment(site, self.z, self._film(site.out_width, site.key))
            else:
                film = self._film(site.out_width, site.key)
                yield site, MatrixAlignment(site, self.z, film, self.shared)

    def attention(self) -> Pairs:
        """M(z), added to the scores."""
        method, length = self.method, self.method.length
        if method.attention == "none":
            return
        blocks = 1 if method.attention == "full" else method.blocks or max(1, self.sites.width // length)
        block = block_size(length, blocks)
        numbers = block * block if method.attention_film == "matrix" else block
        random = method.attention_start == "random"
        for site in self.sites.select(["scores"], method.attention_layers):
            film = self._film(numbers, site.key)
            adapter = ConditionalAttention(
                site, self.condition, film, self.shared, length, block, self.seed, random=random
            )
            yield site, adapter

    def norms(self) -> Pairs:
        """Conditional layer norms at the norms of the blocks."""
        form = self.method.norm
        if form == "none":
            return
        for site in self.sites.available(BLOCK_NORM, self.method.norm_layers):
            yield site, ConditionalNorm(site, self.condition, self._film(site.out_width, site.key), form)

    def bottleneck(self) -> Pairs:
        """The bottleneck at the top block, or parallel to all blocks."""
        method, sites = self.method, self.sites
        if method.bottleneck == "none":
            return
        if method.size == "large":
            (site,) = sites.select(["top"])
            yield site, SkipPath(site, [self._function(f"{n}/skip") for n in range(sites.num_layers)])
            return
        (site,) = sites.select(["block"], [sites.num_layers - 1])
        film = self._film(sites.width, f"{site.key}/norm")
        # the bottleneck includes a norm (figure 3.3a), whether or not the encoder's norms are conditional
        form = method.bottleneck if method.norm == "none" else method.norm
        norm = OwnConditionalNorm(sites.width, self.condition, film, self.shared, sites.norm_eps, form)
        yield site, BlockBottleneck(site, self._function(site.key), norm)

    def _function(self, place: str) -> Bottleneck:
        width = self.sites.width
        size = self.method.bottleneck_width or max(1, width // 3)
        down, up = self._linear(width, size, f"{place}/down"), self._linear(size, width, f"{place}/up")
        if self.method.bottleneck == "code":
            transform, film = self._linear(width, width, f"{place}/transform"), self._film(width, place)
            return FilmBottleneck(self.condition, transform, film, down, up)
        film_down, film_up = self._film(size, f"{place}/down"), self._film(width, f"{place}/up")
        return ModulatedBottleneck(self.condition, down, film_down, up, film_up)

    def _film(self, numbers: int, place: str) -> Film:
        return Film(self.sites.width, numbers, self.shared, self.seed, f"{place}/film", self.method.zero_init)

    def _linear(self, width: int, out_width: int, place: str) -> StackedLinear:
        return StackedLinear(width, out_width, self.shared, self.seed, place)
