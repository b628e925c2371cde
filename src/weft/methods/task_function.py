"""Base classes of the methods of "BERT and PALs": per-task functions V_D·g(V_E·x)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import AfterValidator, Field, PositiveInt, ValidationInfo

from weft.methods.method import LAYERS, Layers, Method, TrainEncoder

if TYPE_CHECKING:
    from torch import nn

    from weft.adapters.adapter import Adapter
    from weft.adapters.attention import StackedAttention
    from weft.adapters.lhuc import Amplitude
    from weft.adapters.projected import Projection
    from weft.core.stacked import Slots
    from weft.encoder.sites import Site, Sites

ShareProjections = Literal["layers", "tasks", "both", "none"]
SHARE = (
    "V_E and V_D: layers (a task's, tied over its layers), tasks (a layer's, for all tasks), both, or none"
)


def _divides(heads: int, info: ValidationInfo) -> int:
    """Check that the heads divide the width; the error names the key `heads`."""
    d_s = info.data.get("d_s")
    if d_s and d_s % heads and info.data.get("inside", "attention") == "attention":
        raise ValueError(f"{heads} heads cannot share d_s {d_s}; expected a divisor of {d_s}")
    return heads


Heads = Annotated[PositiveInt, AfterValidator(_divides), Field(validate_default=True)]
"""The number of heads of an attention whose width is the setting `d_s`, declared before it."""


class PalsMethod(Method):
    """The settings that all methods of the paper have. The whole encoder trains, as in the paper."""

    default_lr: ClassVar[float] = 1e-4
    paper_tasks: ClassVar[int] = 8
    train_encoder: TrainEncoder = Field("all", description="which parameters of the encoder train")
    pooler: Literal["shared", "task"] = Field(
        "shared", description="shared: the encoder's pooler; task: one copy of it per task"
    )

    def weave(self, sites: Sites, tasks: Sequence[str], seed: int) -> Iterator[tuple[Site, Adapter]]:
        """The method's adapters and, if configured, one pooler per task."""
        yield from self.adapters(sites, tasks, seed)
        if self.pooler == "task":
            from weft.adapters.task_linear import TaskLinearAdapter
            from weft.core.stacked import Slots

            for site in sites.select(["pooler"]):
                yield site, TaskLinearAdapter(site, Slots.per_task(tasks))

    def adapters(self, sites: Sites, tasks: Sequence[str], seed: int) -> Iterator[tuple[Site, Adapter]]:
        """The method's adapters, without poolers."""
        return iter(())


class ZeroInitMethod(PalsMethod):
    """A method whose functions may start at zero, so that it starts at the base exactly."""

    zero_init: bool = Field(False, description="V_D starts at zero: the start is the base, exactly")

    @property
    def starts_at_base(self) -> bool:  # type: ignore[override]
        """True with `zero_init` only: the paper starts V_D at N(0, 0.02)."""
        return self.zero_init


class BesideBlocks(ZeroInitMethod):
    """One function TS per block and task, parallel to the block or after it."""

    share: ShareProjections = Field("none", description=SHARE)
    connection: Literal["parallel", "serial"] = Field(
        "parallel",
        description="parallel to the block (eq. 8), or serial: after it, with a new norm (eq. 9 and 10)",
    )
    layers: Layers = Field("all", description=LAYERS)
    lhuc: bool = Field(
        False, description="scale the function's result by 2σ(l), with one l per task and layer"
    )

    @property
    def starts_at_base(self) -> bool:  # type: ignore[override]
        """True with `zero_init` and a parallel connection: the new norm of a serial one is no identity."""
        return self.zero_init and self.connection == "parallel"

    def sites(self, sites: Sites) -> list[Site]:
        """The sites of the functions."""
        return sites.select(["ffn_delta" if self.connection == "parallel" else "block"], self.layers)

    def amplitude(self, sites: Sites, tasks: Sequence[str]) -> Amplitude | None:
        """The scale of one function, if `lhuc` is set."""
        from weft.adapters.lhuc import Amplitude
        from weft.core.stacked import Slots

        return Amplitude(sites.width, Slots.per_task(tasks)) if self.lhuc else None

    def connected(
        self, function: nn.Module, site: Site, sites: Sites, tasks: Sequence[str]
    ) -> tuple[Site, Adapter]:
        """The function at its site."""
        from weft.adapters.connection import ParallelAdapter, SerialAdapter
        from weft.core.stacked import Slots

        if self.connection == "serial":
            return site, SerialAdapter(site, function, Slots.per_task(tasks), sites.pre_norm)
        return site, ParallelAdapter(site, function, "attention_input")

    def blocks(self, num_layers: int) -> list[int] | None:
        """The selected blocks, if the other settings are those of the paper's tables."""
        from weft.encoder.sites import parse_layers

        if self.connection == "serial" or self.lhuc or self.pooler == "task":
            return None
        return parse_layers(self.layers, num_layers)


def block_attention(
    d_s: int, heads: int, dropout: float, slots: Slots, seed: int, site: Site
) -> StackedAttention:
    """The attention of a PAL: without W^o, named by its site."""
    from weft.adapters.attention import StackedAttention

    place = f"{site.key}/attention"
    return StackedAttention(d_s, heads, slots, seed, place, dropout=dropout, name=site.key)


class Projections:
    """The pairs V_E and V_D of a method, tied over layers, over tasks, both, or not at all.

    Args:
        share: how they are tied.
        width: d.
        size: d_s.
        tasks: the tasks' names.
        seed: the random seed of the initial values.
        zero_init: whether V_D starts at zero.
        name: a part of the places, so that two sets of a model have different initial values.
    """

    def __init__(
        self,
        share: ShareProjections,
        width: int,
        size: int,
        tasks: Sequence[str],
        seed: int,
        zero_init: bool,
        name: str = "",
    ) -> None:
        from weft.core.stacked import Slots

        slots = Slots.one(tasks) if share in ("tasks", "both") else Slots.per_task(tasks)
        self.tied = share in ("layers", "both")
        self.settings = (width, size, slots, seed)
        self.zero_init = zero_init
        self.name = name
        self.pair: Projection | None = None

    def at(self, site: Site) -> Projection:
        """Return the pair of this site: the one that all layers share, or a separate one."""
        from weft.adapters.projected import Projection

        if self.pair is not None:
            return self.pair
        place = f"projection{self.name}" if self.tied else f"{site.key}/projection{self.name}"
        made = Projection(*self.settings, place, zero_init=self.zero_init)
        if self.tied:
            self.pair = made
        return made
