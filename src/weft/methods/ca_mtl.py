"""`ca_mtl`: conditionally adaptive multi-task learning (Pilault et al., ICLR 2021).

Every task is a vector z. The adapters are shared by all tasks and conditioned on z: a matrix that is added to
the attention scores, an alignment of the first block's input, layer norms, and a bottleneck. Each part can be
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
"""Default settings of the parts for `variant: paper`; the defaults of the fields are those of the code."""

LARGE_LAYERS = 24


def _off(value: object) -> object:
    """Accept `false` and null in place of `none`."""
    return "none" if value is None or value is False else value


Off = BeforeValidator(_off)


class CaMtl(Method):
    """Parts conditioned on one vector z per task: attention, alignment, layer norm, bottleneck.

    The default is the authors' released code: block-diagonal attention in every block, FiLM on the
    embeddings, conditional norms in the top half, a bottleneck at the top block; the upper half of the
    encoder trains.
    """

    name = "ca_mtl"
    default_lr = 1e-4
    paper_tasks = 9
    paper_encoders = (BERT_BASE, BERT_BASE_CASED, BERT_LARGE_CASED)

    train_encoder: TrainEncoder = Field(
        "layers top half",
        description="which encoder parameters train: 'layers not 0-4', 'layers not bottom 25%', all, …",
    )
    variant: Literal["code", "paper"] = Field(
        "code", description="whose form is the default of each part, where paper and released code differ"
    )
    size: Literal["base", "large"] = Field(
        "base", description="base: the bottleneck at the top block; large: a path parallel to all blocks"
    )
    length: int = Field(128, ge=2, description="L, the longest row that conditional attention supports")
    attention: Annotated[Literal["block", "full", "none"], Off] = Field(
        "block", description="M(z), added to the scores: block-diagonal, one full block, or none"
    )
    blocks: PositiveInt | None = Field(
        None, description="N, the number of blocks of M; by default the encoder's width // length, at least 1"
    )
    attention_layers: Layers = Field("all", description=LAYERS)
    attention_start: Literal["zeros", "random"] = Field(
        "zeros", description="initial values of A, from which M is computed"
    )
    attention_film: Literal["vector", "matrix"] = Field(
        "vector", description="γ and β of M: one number per column of a block, or one per entry"
    )
    alignment: Annotated[Literal["film", "matrix", "task", "none"], Off] = Field(
        "film",
        description="alignment of block 0's input: FiLM, one modulated matrix, one matrix per task, or none",
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
        False,
        description="reinitialize the top block, as the released code does because of its parameter names",
    )
    zero_init: bool = Field(False, description="γ and β start at zero, exactly")

    @model_validator(mode="before")
    @classmethod
    def _forms(cls, settings: Any) -> Any:
        """Fill in the paper's forms for parts that are not configured."""
        if isinstance(settings, Mapping) and settings.get("variant") == "paper":
            return {**PAPER, **settings}
        return settings

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
        """Whether any part is conditioned on z; an alignment with one matrix per task is not."""
        return self.transforms or self.alignment in ("film", "matrix")

    @property
    def transforms(self) -> bool:
        """Whether any part is conditioned on z' instead of z."""
        return (self.attention, self.norm, self.bottleneck) != ("none", "none", "none")

    @property
    def starts_at_base(self) -> bool:  # type: ignore[override]
        """True with γ = β = 0, without a bottleneck, which replaces its input, and without attention.

        M = 0 does not change the tokens' results, but the mask is applied differently: padding may differ.
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
        """The top block, if `reinit_top` is set."""
        return [num_layers - 1] if self.reinit_top else []

    def weave(self, sites: Sites, tasks: Sequence[str], seed: int) -> Iterator[tuple[Site, Adapter]]:
        """The configured parts, from the embeddings upwards."""
        from weft.methods.ca_mtl_parts import Parts

        parts = Parts(self, sites, tasks, seed)
        yield from parts.alignment()
        yield from parts.attention()
        yield from parts.norms()
        yield from parts.bottleneck()
