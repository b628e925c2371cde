"""Actions: what a cell does. A cell without an action is trained from its encoder.

An action is one file with one function and one line here. A grid names it in a variant, with its settings:
`{assemble: [single_cola, single_rte]}`. The function gets the job and the reporter, and returns the outcome.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from weft.registry import Registry

if TYPE_CHECKING:
    from weft.experiments.job import Job

TRAIN = "train"
"""The action of a cell that names none."""


class Reporter(Protocol):
    """Receives the progress of a cell."""

    def step(self, done: int, total: int, score: float | None) -> None:
        """Report the number of steps done, and the last score, from 0 to 1."""
        ...

    def say(self, text: str) -> None:
        """Write a line to the cell's log."""
        ...


@dataclass
class Outcome:
    """What an action found; the fields are those of `Record`.

    Attributes:
        steps: how many optimizer steps this call has taken; not part of the record.
    """

    metrics: dict[str, dict[str, float]]
    rows: dict[str, int]
    settings: dict[str, Any] = field(default_factory=dict)
    statistics: str = ""
    chosen_by: dict[str, dict[str, float]] | None = None
    curve: list[dict[str, Any]] = field(default_factory=list)
    losses: list[dict[str, Any]] = field(default_factory=list)
    trace: dict[str, Any] = field(default_factory=dict)
    parameters: dict[str, Any] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    step: int | None = None
    measures: dict[str, Any] = field(default_factory=dict)
    steps: int = 0


Action = Callable[["Job", Reporter], Outcome]

ACTIONS: Registry[Action] = Registry(
    "action",
    {
        TRAIN: "weft.experiments.actions.train:train",
        "start_from": "weft.experiments.actions.train:start_from",
        "policy_from": "weft.experiments.actions.policy:policy_from",
        "grow": "weft.experiments.actions.grow:grow",
        "assemble": "weft.experiments.actions.assemble:assemble",
        "peer": "weft.experiments.actions.peers:peer",
    },
)
