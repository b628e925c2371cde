"""The phases of a run: with L0 gates, a gate phase that selects ranks, then a phase that trains the rest."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from weft.errors import WeftError, words
from weft.methods.ranked import l0_of
from weft.training.optim import l0
from weft.training.optim.owners import OwnerOptimizers
from weft.training.optim.schedule import lr_factor
from weft.training.optim.soft_sharing import soft_penalty, soft_sharing_of
from weft.training.settings import LearningRates, Training
from weft.training.step.gradients import Penalty

if TYPE_CHECKING:
    from weft.model.model import Model


class Phases:
    """What differs between the phases: learning rates, optimizers and penalty. `l0.Gates` handles the gates.

    Args:
        model: the model; its gates must not be decided yet.
        training: the settings of `train`; `lr` must be set.

    Attributes:
        gates: the model's gates, in the order of its adapters; without gates there is only the second phase.
        l0: the settings of the gates; None without gates.
        before: the number of steps of the first phase.
        total: the number of steps of both phases.
    """

    def __init__(self, model: Model, training: Training) -> None:
        self.model, self.training = model, training
        self.gates = l0.gates_of(model)
        self.l0 = l0_of(model.method) if self.gates else None
        if l0.decided(self.gates):
            raise WeftError(
                "the gates of this model are decided already: remove them and train what is left, with "
                f"{words('weft compact BUNDLE --out SMALL', 'model.compact()')}"
            )
        self.before = 0 if self.l0 is None else self.l0.steps
        self.total = self.before + training.steps

    def lr(self, step: int) -> tuple[float, float | None]:
        """The factor on the peak learning rate, and the peak if it differs in the step's phase."""
        training = self.training
        if step >= self.before:
            return lr_factor(step - self.before, training.steps, training.warmup, training.schedule), None
        assert self.l0 is not None
        return lr_factor(step, self.before, training.warmup, training.schedule), self.l0.lr

    def optimizers(self, step: int) -> OwnerOptimizers:
        """New optimizers for the parameters that train in the phase of this step."""
        training = self.training
        rates = training.lr_of or LearningRates()
        gate_lr = None if self.l0 is None else rates.gates or self.l0.gate_lr
        return OwnerOptimizers(
            self.model,
            lr=training.lr or 0.0,
            weight_decay=training.weight_decay,
            betas=training.betas,
            eps=training.eps,
            gate_lr=gate_lr,
            lr_of=rates,
            optimizer=training.optimizer,
            steps=self.before if step < self.before else training.steps,
            warmup=training.warmup,
            schedule=training.schedule,
        )

    def penalty(self, step: int) -> Penalty | None:
        """The term that the phase of this step adds to the loss: Σ λ·P(z ≠ 0) in the gate phase, or that of
        soft sharing; None: nothing.
        """
        if step < self.before:
            return partial(l0.penalty, self.gates)
        soft = soft_sharing_of(self.model)
        return None if soft is None else partial(soft_penalty, self.model, soft)
