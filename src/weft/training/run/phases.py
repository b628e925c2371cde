"""The phases of a run: with L0 gates one in which they are found, then one in which what is left trains."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from weft.errors import WeftError
from weft.methods.ranked import l0_of
from weft.training.optim import l0
from weft.training.optim.owners import OwnerOptimizers
from weft.training.optim.schedule import lr_factor
from weft.training.settings import LearningRates, Training
from weft.training.step.gradients import Penalty

if TYPE_CHECKING:
    from weft.model.model import Model


class Phases:
    """What differs between the phases: learning rates, optimisers, a penalty. `l0.Gates` draws and decides.

    Args:
        model: the model; its gates must not be decided yet.
        training: how to train; `lr` is given.

    Attributes:
        gates: of the model, in the order of its adapters; without any the run is its second phase alone.
        l0: their settings; None if there are none.
        before: the number of steps of the first phase.
        total: the number of steps of both.
    """

    def __init__(self, model: Model, training: Training) -> None:
        self.model, self.training = model, training
        self.gates = l0.gates_of(model)
        self.l0 = l0_of(model.method) if self.gates else None
        if l0.decided(self.gates):
            raise WeftError(
                "the gates of this model are decided already: take them out and train what is left, with "
                "weft compact BUNDLE --out SMALL, or model.compact() in Python"
            )
        self.before = 0 if self.l0 is None else self.l0.steps
        self.total = self.before + training.steps

    def lr(self, step: int) -> tuple[float, float | None]:
        """The share of the peak learning rate, and the peak where the step's phase has its own."""
        given = self.training
        if step >= self.before:
            return lr_factor(step - self.before, given.steps, given.warmup, given.schedule), None
        assert self.l0 is not None
        return lr_factor(step, self.before, given.warmup, given.schedule), self.l0.lr

    def optimizers(self, step: int) -> OwnerOptimizers:
        """Fresh optimisers of what trains in the phase of this step."""
        given = self.training
        rates = given.lr_of or LearningRates()
        gate_lr = None if self.l0 is None else rates.gates or self.l0.gate_lr
        return OwnerOptimizers(
            self.model,
            lr=given.lr or 0.0,
            weight_decay=given.weight_decay,
            gate_lr=gate_lr,
            lr_of=rates,
            optimizer=given.optimizer,
            steps=self.before if step < self.before else given.steps,
            warmup=given.warmup,
            schedule=given.schedule,
        )

    def penalty(self, step: int) -> Penalty | None:
        """What the phase of this step adds to the loss: Σ λ·P(z ≠ 0) where gates are being found."""
        return partial(l0.penalty, self.gates) if step < self.before else None
