"""`ca_mtl`: conditionally adaptive multi-task learning (Pilault et al., ICLR 2021).

Every task is a vector z. What adapts the encoder is shared by all tasks and conditioned on z: a matrix on the
attention scores, an alignment of what enters the first block, layer norms, and a bottleneck. Each part can be
left out (Table 3.1), and has the form of the released code or of the paper, which differ.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
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
    from weft.encoder.sites import Site, Sites

PAPER = {
    "attention_start": "random",
    "attention_film": "matrix",
    "alignment": "matrix",
    "norm": "paper",
    "bottleneck": "paper",
}
"""What the parts' settings are by default in the paper's variant; the code's are the fields' own defaults."""

LARGE_LAYERS = 24


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
    length: int = Field(128, ge=2, description="L, the longest row that conditional attention is made for")
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
        """The paper's forms, where a part's own is not given."""
        if isinstance(given, Mapping) and given.get("variant") == "paper":
            return {**PAPER, **given}
        return given

    @model_validator(mode="after")
    def _fit(self) -> CaMtl:
        if self.blocks is not None and self.attention != "block":
            raise ValueError(f"blocks {self.blocks}: with attention {self.attention!r} there are none")
        if self.blocks is not None and self.blocks > self.length:
            raise ValueError(f"blocks {self.blocks}: more than the {self.length} places (length) of a row")
        if self.reinit_top and self.train_encoder in ("none", "biases", "norms"):
            raise ValueError(
                f"reinit_top: train_encoder is {self.train_encoder!r}, and the top block must train"
            )
        return self

    @property
    def embeds(self) -> bool:  # type: ignore[override]
        """Whether any part is conditioned: an alignment of each task's own matrix is not."""
        return self.transforms or self.alignment in ("film", "matrix")

    @property
    def transforms(self) -> bool:
        """Whether any part is made from z', and not from z itself."""
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
        """Tables 3.2, 3.4 and 3.9 print 1.12x and 5.6 % for base and large alike, the lower half frozen."""
        size = "large" if num_layers == LARGE_LAYERS else "base"
        whole = CaMtl(size=size, length=self.length, reinit_top=self.reinit_top, zero_init=self.zero_init)
        if self != whole:
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
        from weft.methods.ca_mtl_parts import Parts

        parts = Parts(self, sites, tasks, seed)
        yield from parts.alignment()
        yield from parts.attention()
        yield from parts.norms()
        yield from parts.bottleneck()
