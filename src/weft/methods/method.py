"""What every method is: a short file of settings and of (site, adapter) pairs.

Nothing here imports torch: a run file is checked before anything heavy is loaded.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, NamedTuple

from pydantic import BeforeValidator, Field

from weft.settings import Named

if TYPE_CHECKING:
    from weft.adapters.adapter import Adapter
    from weft.core.stacked import Slots
    from weft.encoder.sites import Site, Sites

_LAYERS = re.compile(r"layers?\s+\S.*")


def _train_encoder(value: object) -> object:
    if value is None:
        return "none"
    if isinstance(value, str) and (value in ("none", "all", "biases", "norms") or _LAYERS.fullmatch(value)):
        return value
    raise ValueError(f"expected none, all, biases, norms, or layers such as 'layers 6-11'; found {value!r}")


TrainEncoder = Annotated[str, BeforeValidator(_train_encoder)]
"""What of the encoder trains, shared by all tasks: none, all, biases, norms, or `layers 6-11`."""

Layers = Annotated[str | list[int], BeforeValidator(lambda v: [v] if type(v) is int else v)]
"""A setting that names blocks, as `weft.encoder.sites.parse_layers` reads it; one number is a list of one."""

LAYERS = "all, top half, bottom 25%, 6-11, not 0-4, or a list"

ROUND_BERT_BASE = (110_000_000, "MORRIS (Tables 1 and 2) takes BERT-base for 110 million parameters")

Share = Literal["task", "all"] | dict[str, list[str]]
"""Who has parameters of its own: every `task`, `all` tasks one set, or named groups of tasks."""


BERT_BASE, BERT_BASE_CASED, BERT_LARGE_CASED = 109_482_240, 108_310_272, 333_579_264
"""The parameters of the encoders that the papers used."""


class Printed(NamedTuple):
    """A figure as a paper prints it: all tasks together over one encoder, and what there is to say of it.

    Attributes:
        ratio: what all tasks hold over one encoder.
        why: what there is to say of it.
        percent: what trains for a task over one encoder, in percent, where it is printed.
    """

    ratio: float
    why: str
    percent: float | None = None


class Miscount(NamedTuple):
    """How many more parameters (or fewer) a paper's own formula counts than there are, and why."""

    parameters: int
    why: str


class Method(Named):
    """A way to fit one encoder to many tasks: which adapters go where, and what of the encoder trains.

    Attributes:
        starts_at_base: whether a fresh model gives exactly the bare encoder's hidden states.
        separate: whether every task has a whole encoder of its own.
        default_lr: a peak learning rate that suits it, where a run gives none.
        paper_basis: what the paper's ratios divide by where it is not the encoder's real size, and why.
        adds: whether its adapters are all additions to weights or biases, which can be merged and compared.
        attends: whether its adapters may have an attention of their own, which can be shown.
        embeds: whether a task is a vector to it, from which all else that is the task's own is made.
        paper_tasks: the number of tasks that `printed` is for.
        paper_encoders: the sizes of the encoders that `printed` is for.
    """

    starts_at_base: ClassVar[bool] = True
    separate: ClassVar[bool] = False
    default_lr: ClassVar[float] = 1e-3
    paper_basis: ClassVar[tuple[int, str] | None] = None
    adds: ClassVar[bool] = False
    attends: ClassVar[bool] = False
    embeds: ClassVar[bool] = False
    paper_tasks: ClassVar[int] = 0
    paper_encoders: ClassVar[tuple[int, ...]] = (BERT_BASE,)

    train_encoder: TrainEncoder = Field(
        "none", description="what of the encoder trains: none, all, biases, norms, or 'layers 6-11'"
    )

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls.what = f"method {cls.__dict__.get('name', cls.__name__)!r}"

    def weave(self, sites: Sites, tasks: Sequence[str], seed: int) -> Iterator[tuple[Site, Adapter]]:
        """The adapters and their sites.

        Args:
            sites: what the encoder offers.
            tasks: the tasks' names, in the order of their ids.
            seed: of the start values.
        """
        return iter(())

    def printed(self, num_layers: int) -> Printed | None:
        """What the paper prints for its encoder, its number of tasks and just these settings, if it does."""
        return None

    def miscount(self, num_layers: int, tasks: int) -> Miscount | None:
        """How the paper's formula, on BERT-base, differs from the real count of just these settings."""
        return None

    def with_ranks(self, patterns: Sequence[Mapping[str, Mapping[str, int]]]) -> Method:
        """The same method with these ranks, and without gates.

        Args:
            patterns: for each part the ranks of its sites by key, by the setting that holds them
                (`{"rank_pattern": {"0/query": 3}}`).
        """
        return self

    @property
    def longest_row(self) -> int | None:
        """The most tokens that its adapters take in a row, if they have a limit."""
        return None

    def restarted(self, num_layers: int) -> list[int]:
        """The blocks of the encoder that forget their weights and start anew."""
        return []

    @property
    def parts(self) -> tuple[Method, ...]:
        """The methods it is composed of: itself, or several."""
        return (self,)


def slots_for(share: Share, tasks: Sequence[str]) -> Slots:
    """The slots that a `share` setting means."""
    from weft.core.stacked import Slots

    if share == "task":
        return Slots.per_task(tasks)
    if share == "all":
        return Slots.one(tasks)
    assert isinstance(share, Mapping)
    return Slots.grouped(tasks, share)
