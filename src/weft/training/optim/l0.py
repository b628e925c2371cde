"""L0 gates in training: sampled and penalized in phase one, then fixed open or shut (MORRIS, Algorithm 1)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from weft.adapters.gate import OPEN, RankGate
from weft.model.accounting.sparsity import in_words, sparsity
from weft.training.run.component import Component, LogEvent
from weft.training.step.gradients import step_seed

if TYPE_CHECKING:
    from weft.model.model import Model


def gates_of(model: Model) -> list[RankGate]:
    """All gates of a model, in the order of its adapters."""
    return [module for module in model.adapters.modules() if isinstance(module, RankGate)]


def draw(gates: Sequence[RankGate], seed: int | None) -> None:
    """Draw the noise u of a step for every gate, from the seed alone; None: gates are no longer random."""
    generator = None if seed is None else torch.Generator().manual_seed(seed)
    for gate in gates:
        gate.draw(generator)


def penalty(gates: Sequence[RankGate]) -> Tensor:
    """Σ λ·P(z ≠ 0) over all gates."""
    terms = [gate.settings.penalty * gate.open_probability().sum() for gate in gates]
    return torch.stack(terms).sum()


@torch.no_grad()
def expected_open(gates: Sequence[RankGate]) -> float:
    """The mean of P(z ≠ 0) over all gates, which the penalty reduces."""
    return float(torch.cat([gate.open_probability().flatten() for gate in gates]).mean())


@torch.no_grad()
def would_keep(gates: Sequence[RankGate]) -> float:
    """The fraction of the gates that would be opened if they were decided now."""
    kept = [gate.get_parameter("alpha").flatten() >= gate.settings.threshold for gate in gates]
    return float(torch.cat(kept).double().mean())


def decide(gates: Sequence[RankGate]) -> None:
    """End phase one: each gate is open or shut for good, and none is random any more."""
    draw(gates, None)
    for gate in gates:
        gate.decide()


def freeze(gates: Sequence[RankGate]) -> None:
    """Freeze the gates of a run that is resumed in phase two, where they are decided already."""
    for gate in gates:
        gate.get_parameter("alpha").requires_grad_(False)


def decided(gates: Sequence[RankGate]) -> bool:
    """Whether there are gates, and all of them are open or shut for good."""
    return bool(gates) and all(bool((gate.get_parameter("alpha").abs() == OPEN).all()) for gate in gates)


class Gates(Component):
    """Samples a model's gates before every step of the gate phase, and decides them at its end.

    Args:
        gates: the model's gates, in the order of its adapters.
        before: the number of steps of the gate phase.
    """

    name = "gates"

    def __init__(self, gates: Sequence[RankGate], before: int) -> None:
        self.gates, self.before = gates, before

    def before_step(self, number: int) -> None:
        """See `Component`: one u per gate and step, equal for all its micro-batches and processes."""
        if number < self.before:
            draw(self.gates, step_seed(self.run.training.seed, number, 0, "gates"))

    def at_phase(self, resumed: bool) -> None:
        """See `Component`: every gate is open or shut for good."""
        if resumed:
            freeze(self.gates)
            return
        decide(self.gates)
        kept = sparsity(self.run.model)
        step = self.run.state.step
        self.run.write_log("gates", step=step, **kept)
        self.run.say(f"gates decided after step {step}, kept: {in_words(kept)}")

    def log_fields(self, event: LogEvent) -> dict[str, Any]:
        """See `Component`."""
        if event != "step" or self.run.state.step >= self.before:
            return {}
        return {"gates_open": expected_open(self.gates), "gates_kept": would_keep(self.gates)}
