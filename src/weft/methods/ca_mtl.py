"""`ca_mtl`: conditionally adaptive multi-task learning (Pilault et al., ICLR 2021).

Every task is a vector z. What adapts the encoder is shared by all tasks and conditioned on z: a matrix on the
attention scores, an alignment of what enters the first block, layer norms, and a bottleneck. Each part can be
left out (Table 3.1), and has the form of the released code or of the paper, which differ.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BeforeValidator, Field, PositiveInt, model_validator

from weft.methods.method import (
    BERT_BASE,
    BERT_BASE_CASED,
    BERT_LARGE_CASED,
    LAYERS,
    Layers,
    Method,
    Printed,
    TrainEncoder,
)

if TYPE_CHECKING:
    from weft.adapters.adapter import Adapter
    from weft.adapters.conditional_bottleneck import Bottleneck
    from weft.adapters.film import Film
    from weft.adapters.task_embedding import TaskEmbedding, TransformedEmbedding
    from weft.encoder.sites import Site, Sites
    from weft.routing import Slots

FORMS: dict[str, dict[str, str]] = {
    "code": {
        "attention_start": "zeros",
        "attention_film": "vector",
        "alignment": "film",
        "norm": "code",
        "bottleneck": "code",
    },
    "paper": {
        "attention_start": "random",
        "attention_film": "matrix",
        "alignment": "matrix",
        "norm": "paper",
        "bottleneck": "paper",
    },
}
"""What the settings of the parts are in either variant, where they are not given."""


def _off(value: object) -> object:
    """`false` and nothing leave a part out, as `none` does."""
    return "none" if value is None or value is False else value


Off = BeforeValidator(_off)


class CaMtl(Method):
    """Parts conditioned on a vector z a task: attention, alignment, layer norm, bottleneck.

    By default what the authors released: block-diagonal attention in every block, FiLM on the embeddings,
    conditional norms in the top half, a bottleneck at the top block; the upper half of the encoder trains.
    """

    name = "ca_mtl"
    default_lr = 1e-4
    paper_tasks = 9
    paper_encoders = (BERT_BASE, BERT_BASE_CASED, BERT_LARGE_CASED)

    train_encoder: TrainEncoder = Field(
        "layers top half",
        description="what of the encoder trains: 'layers not 0-4', 'layers not bottom 25%', all, …",
    )
    variant: Literal["code", "paper"] = Field(
        "code", description="where paper and released code differ, which of them is the default of each part"
    )
    size: Literal["base", "large"] = Field(
        "base", description="the bottleneck at the top block, or as a path beside all blocks"
    )
    length: PositiveInt = Field(128, description="L, the longest row that conditional attention is made for")
    attention: Annotated[Literal["block", "full", "none"], Off] = Field(
        "block", description="M(z) on the scores: block-diagonal, one full block, or none"
    )
    blocks: PositiveInt | None = Field(
        None, description="N, the number of blocks of M; by default the encoder's width // length, at least 1"
    )
    attention_layers: Layers = Field("all", description=LAYERS)
    attention_start: Literal["zeros", "random"] = Field("zeros", description="of A, which M is made of")
    attention_film: Literal["vector", "matrix"] = Field(
        "vector", description="γ and β of M: one number a column of a block, or one an entry"
    )
    alignment: Annotated[Literal["film", "matrix", "task", "none"], Off] = Field(
        "film",
        description="of what enters block 0: FiLM, one modulated matrix, a matrix a task, or none",
    )
    norm: Annotated[Literal["code", "paper", "none"], Off] = Field(
        "code", description="conditional layer norms as released, by eq. 3.3, or none"
    )
    norm_layers: Layers = Field("top half", description=LAYERS)
    bottleneck: Annotated[Literal["code", "paper", "none"], Off] = Field(
        "code", description="the bottleneck as released, by eq. 3.2, or none"
    )
    bottleneck_width: PositiveInt | None = Field(
        None, description="its inner width; by default a third of the encoder's"
    )
    reinit_top: bool = Field(
        False, description="draw the top block's weights anew, as the released code does by its names"
    )
    zero_init: bool = Field(False, description="γ and β start at zero, exactly")

    @model_validator(mode="before")
    @classmethod
    def _forms(cls, given: Any) -> Any:
        """The variant's forms, where a part's own is not given."""
        if isinstance(given, Mapping):
            return {**FORMS.get(str(given.get("variant", "code")), {}), **given}
        return given

    @model_validator(mode="after")
    def _fit(self) -> CaMtl:
        if self.blocks is not None and self.attention != "block":
            raise ValueError(f"blocks {self.blocks}: with attention {self.attention!r} there are none")
        if self.blocks is not None and self.blocks > self.length:
            raise ValueError(f"blocks {self.blocks}: more than the {self.length} places (length) of a row")
        return self

    @property
    def embeds(self) -> bool:  # type: ignore[override]
        """Whether any part is conditioned: an alignment of each task's own matrix is not."""
        return self._transforms or self.alignment in ("film", "matrix")

    @property
    def _transforms(self) -> bool:
        """Whether any part is made from z'."""
        return (self.attention, self.norm, self.bottleneck) != ("none", "none", "none")

    @property
    def starts_at_base(self) -> bool:  # type: ignore[override]
        """With γ = β = 0, without a bottleneck, which replaces what it reads, and without attention.

        M = 0 changes nothing that counts, but the mask goes another way then, and padding may differ.
        """
        if self.attention != "none" or self.bottleneck != "none" or self.reinit_top or self.norm == "paper":
            return False
        return self.zero_init or (self.norm == "none" and self.alignment in ("task", "none"))

    def printed(self, num_layers: int) -> Printed | None:
        """Tables 3.2, 3.4 and 3.9 print 1.12x and 5.6 % for base and large alike."""
        if "none" in (self.attention, self.alignment, self.norm, self.bottleneck):
            return None
        return Printed(
            1.12,
            "Table 3.2 prints 1.12x and 5.6 % for base and large alike; neither follows from the released "
            "code, which holds 1.18x (base) and 1.44x (large): 5.6 % is half an encoder over nine tasks, "
            "with nothing for what is added",
            5.6,
        )

    @property
    def longest_row(self) -> int | None:
        """L, where there is an M(z)."""
        return None if self.attention == "none" else self.length

    def restarted(self, num_layers: int) -> list[int]:
        """The top block, where asked for."""
        return [num_layers - 1] if self.reinit_top else []

    def weave(self, sites: Sites, tasks: Sequence[str], seed: int) -> Iterator[tuple[Site, Adapter]]:
        """The parts that are asked for, from the embeddings upwards."""
        from weft.adapters.task_embedding import TaskEmbedding, TransformedEmbedding
        from weft.routing import Slots

        own, one, width = Slots.per_task(tasks), Slots.one(tasks), sites.width
        z = TaskEmbedding(width, own, seed, "ca_mtl") if self.embeds else None
        yield from self._alignment(sites, z, own, one, seed)
        if self._transforms:
            assert z is not None
            transformed = TransformedEmbedding(z, width, one, seed, "ca_mtl/transform")
            parts = _Parts(self, sites, transformed, one, seed)
            yield from parts.attention()
            yield from parts.norms()
            yield from parts.bottleneck()

    def _alignment(
        self, sites: Sites, z: TaskEmbedding | None, own: Slots, one: Slots, seed: int
    ) -> Iterator[tuple[Site, Adapter]]:
        from weft.adapters.alignment import FilmAlignment, MatrixAlignment, TaskAlignment
        from weft.adapters.film import Film

        for site in sites.select(["embeddings"]) if self.alignment != "none" else ():
            if self.alignment == "task":
                yield site, TaskAlignment(site, own)
                continue
            assert z is not None
            film = Film(sites.width, sites.width, one, seed, "alignment", self.zero_init)
            if self.alignment == "film":
                yield site, FilmAlignment(site, z, film)
            else:
                yield site, MatrixAlignment(site, z, film, one)


@dataclass
class _Parts:
    """The parts that are made from z'.

    Attributes:
        method: the settings.
        sites: what the encoder offers.
        condition: z'.
        one: one slot for all tasks.
        seed: of the start values.
    """

    method: CaMtl
    sites: Sites
    condition: TransformedEmbedding
    one: Slots
    seed: int

    def attention(self) -> Iterator[tuple[Site, Adapter]]:
        """M(z) on the scores."""
        from weft.adapters.conditional_attention import ConditionalAttention, block_size

        given, length = self.method, self.method.length
        if given.attention == "none":
            return
        blocks = 1 if given.attention == "full" else given.blocks or max(1, self.sites.width // length)
        block = block_size(length, blocks)
        numbers = block * block if given.attention_film == "matrix" else block
        random = given.attention_start == "random"
        for site in self.sites.select(["scores"], given.attention_layers):
            film = self._film(numbers, site.key)
            yield (
                site,
                ConditionalAttention(
                    site, self.condition, film, self.one, length, block, self.seed, random=random
                ),
            )

    def norms(self) -> Iterator[tuple[Site, Adapter]]:
        """Conditional layer norms at the blocks' own."""
        from weft.adapters.conditional_norm import ConditionalNorm
        from weft.encoder.sites import BLOCK_NORM

        form = self.method.norm
        if form == "none":
            return
        for site in self.sites.available(BLOCK_NORM, self.method.norm_layers):
            yield site, ConditionalNorm(site, self.condition, self._film(site.out_width, site.key), form)

    def bottleneck(self) -> Iterator[tuple[Site, Adapter]]:
        """At the top block, or beside all blocks."""
        from weft.adapters.conditional_bottleneck import BlockBottleneck, SkipPath
        from weft.adapters.conditional_norm import OwnConditionalNorm

        given, sites = self.method, self.sites
        if given.bottleneck == "none":
            return
        if given.size == "large":
            (site,) = sites.select(["top"])
            yield site, SkipPath(site, [self._function(f"{n}/skip") for n in range(sites.num_layers)])
            return
        (site,) = sites.select(["block"], [sites.num_layers - 1])
        film = self._film(sites.width, f"{site.key}/norm")
        # its norm is part of it (figure 3.3a), whether or not the encoder's own are conditional
        form = given.bottleneck if given.norm == "none" else given.norm
        norm = OwnConditionalNorm(sites.width, self.condition, film, self.one, sites.norm_eps, form)
        yield site, BlockBottleneck(site, self._function(site.key), norm)

    def _film(self, numbers: int, place: str) -> Film:
        from weft.adapters.film import Film

        return Film(self.sites.width, numbers, self.one, self.seed, place, self.method.zero_init)

    def _function(self, place: str) -> Bottleneck:
        from weft.adapters.conditional_bottleneck import FilmBottleneck, ModulatedBottleneck

        width = self.sites.width
        kind = FilmBottleneck if self.method.bottleneck == "code" else ModulatedBottleneck
        size = self.method.bottleneck_width or max(1, width // 3)
        return kind(width, size, self.condition, self.one, self.seed, place)
