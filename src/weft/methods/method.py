"""The base class of all methods: settings, and the (site, adapter) pairs that they stand for.

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


def encoder_choice(value: object) -> object:
    """Check a value of `train_encoder`; null is `none`."""
    if value is None:
        return "none"
    if isinstance(value, str) and (value in ("none", "all", "biases", "norms") or _LAYERS.fullmatch(value)):
        return value
    raise ValueError(f"expected none, all, biases, norms, or layers such as 'layers 6-11'; found {value!r}")


TrainEncoder = Annotated[str, BeforeValidator(encoder_choice)]
"""Which encoder parameters train, shared by all tasks: none, all, biases, norms, or `layers 6-11`."""

Layers = Annotated[str | list[int], BeforeValidator(lambda v: [v] if type(v) is int else v)]
"""A setting that names blocks, as `weft.encoder.sites.parse_layers` reads it; one number is a list of one."""

LAYERS = "all, top half, bottom 25%, 6-11, not 0-4, or a list"

ROUND_BERT_BASE = (110_000_000, "MORRIS (Tables 1 and 2) takes BERT-base for 110 million parameters")
MORRIS_TASKS = 9
"""MORRIS trains the eight tasks of GLUE without WNLI, and counts the parameters of nine."""

Share = Literal["task", "all"] | dict[str, list[str]]
"""How parameters are shared: one set per `task`, one set for `all` tasks, or one per named group."""


BERT_BASE, BERT_BASE_CASED, BERT_LARGE_CASED = 109_482_240, 108_310_272, 333_579_264
"""The parameters of the encoders that the papers used."""


class Printed(NamedTuple):
    """A figure as a paper prints it.

    Attributes:
        ratio: the parameters of all tasks together, divided by those of one encoder.
        why: a remark on the figure.
        percent: the trained parameters per task in percent of one encoder, if the paper prints it.
    """

    ratio: float
    why: str
    percent: float | None = None


class Miscount(NamedTuple):
    """How many more (or fewer) parameters a paper's formula counts than there really are, and why."""

    parameters: int
    why: str


class Method(Named):
    """A way to adapt one encoder to many tasks: which adapters go where, and which encoder parameters train.

    Attributes:
        starts_at_base: whether a new model computes exactly the hidden states of the plain encoder.
        separate: whether every task has a whole encoder.
        default_lr: the peak learning rate, if a run configures none.
        paper_basis: the number that the paper's ratios divide by if it is not the encoder's real size, and
            why.
        adds: whether its adapters are all additions to weights or biases, which can be merged and compared.
        attends: whether its adapters may include attention layers, whose probabilities can be shown.
        embeds: whether it represents each task by a vector, from which the other parameters are computed.
        paper_tasks: the number of tasks that `printed` is for.
        paper_encoders: the sizes of the encoders that `printed` is for.
        largest: the largest width, rank or depth of a setting; that of `Settings` is for counts of steps.
        counted_tasks: the number of tasks that the ratios of `paper_basis` are for; None: that of the model.
    """

    largest: ClassVar[int] = 65_536
    starts_at_base: ClassVar[bool] = True
    separate: ClassVar[bool] = False
    default_lr: ClassVar[float] = 1e-3
    paper_basis: ClassVar[tuple[int, str] | None] = None
    adds: ClassVar[bool] = False
    attends: ClassVar[bool] = False
    embeds: ClassVar[bool] = False
    paper_tasks: ClassVar[int] = 0
    paper_encoders: ClassVar[tuple[int, ...]] = (BERT_BASE,)
    counted_tasks: ClassVar[int | None] = None

    train_encoder: TrainEncoder = Field(
        "none",
        description="which parameters of the encoder train: none, all, biases, norms, or 'layers 6-11'",
    )

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls.what = f"method {cls.__dict__.get('name', cls.__name__)!r}"

    def weave(self, sites: Sites, tasks: Sequence[str], seed: int) -> Iterator[tuple[Site, Adapter]]:
        """Yield the adapters and their sites.

        Args:
            sites: the encoder's sites.
            tasks: the tasks' names, in the order of their ids.
            seed: the random seed of the initial values.
        """
        return iter(())

    def printed(self, num_layers: int) -> Printed | None:
        """The paper's figure for its encoder, its number of tasks and exactly these settings, or None."""
        return None

    def miscount(self, num_layers: int, tasks: int) -> Miscount | None:
        """How the paper's formula, on BERT-base, differs from the real count for exactly these settings."""
        return None

    def with_ranks(self, patterns: Sequence[Mapping[str, Mapping[str, int]]]) -> Method:
        """The same method with these ranks, and without gates.

        Args:
            patterns: for each part, setting → site key → rank (`{"rank_pattern": {"0/query": 3}}`).
        """
        return self

    @property
    def longest_row(self) -> int | None:
        """The most tokens per row that its adapters support, if there is a limit."""
        return None

    def restarted(self, num_layers: int) -> list[int]:
        """The blocks of the encoder that are reinitialized."""
        return []

    @property
    def shares_constants(self) -> bool:
        """Whether all that its tasks share are constants, which are equal for all models of one encoder."""
        return False

    @property
    def parts(self) -> tuple[Method, ...]:
        """The methods it is composed of: itself, or several."""
        return (self,)


def slots_for(share: Share, tasks: Sequence[str]) -> Slots:
    """Return the slots for a `share` setting."""
    from weft.core.stacked import Slots

    if share == "task":
        return Slots.per_task(tasks)
    if share == "all":
        return Slots.one(tasks)
    assert isinstance(share, Mapping)
    return Slots.grouped(tasks, share)
