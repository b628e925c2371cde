"""Weights of the tasks' losses: configured, or learned from the tasks' uncertainty."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from weft.training.run.component import Component, LogEvent, StepDone

BETAS = (0.9, 0.999)
EPS = 1e-8


class TaskWeights(Component):
    """The factor of each task's loss, [T].

    `learned` is the homoscedastic uncertainty of Kendall, Gal and Cipolla (2018). With s_t = log σ_t², the
    step's loss is Σ_t c_t·e^(−s_t)·L_t + m_t·s_t/2 over the tasks present, L_t = Σ weight·ℓ and
    m_t = Σ weight over the task's examples, so that the regularizer fits every loss rule; c is ½ if ℓ is a
    squared error and 1 otherwise. An s_t begins at 0 and has a separate Adam without decay. It belongs to its
    task and does not change in steps without the task.

    Args:
        setting: {task: weight}, where tasks left out weigh 1; "learned"; or None: all weigh 1. As
            `train.task_weights` has validated it.
        names: the names of the tasks that train, [T].
        squared: whether each task's loss is a squared error, [T]: `Kind.squared`.
        lr: the peak learning rate of s.
    """

    name = "task_weights"

    def __init__(
        self,
        setting: Mapping[str, float] | str | None,
        names: Sequence[str],
        squared: Sequence[bool],
        lr: float,
    ) -> None:
        self._names = tuple(names)
        self.learned = self.needs_losses = setting == "learned"
        self.lr = lr
        count = len(self._names)
        self._fixed = np.ones(count)
        if isinstance(setting, Mapping):
            self._fixed = np.array([setting.get(name, 1.0) for name in names])
        self._c = np.where(np.asarray(squared, bool), 0.5, 1.0)
        self._s, self._m, self._v = (np.zeros(count) for _ in range(3))
        self._steps = np.zeros(count, np.int64)

    def task_factors(self) -> NDArray[np.float32]:
        """See `Component`."""
        return self.factors()

    def after_step(self, done: StepDone) -> None:
        """See `Component`."""
        if self.learned:
            assert done.losses is not None
            mass = np.bincount(done.step.task, done.step.weight, len(self._names))
            self.update(done.losses, mass, done.lr_factor)

    def log_fields(self, event: LogEvent) -> dict[str, Any]:
        """See `Component`."""
        return {"task_weights": self.report()} if self.learned and event == "step" else {}

    def factors(self) -> NDArray[np.float32]:
        """The factor on the weights of each task's examples, [T]."""
        return (self._c * np.exp(-self._s) if self.learned else self._fixed).astype(np.float32)

    def update(self, losses: ArrayLike, mass: ArrayLike, lr_factor: float = 1.0) -> None:
        """Update the s of the tasks present by one step of Adam; configured weights do not change.

        ∂/∂s_t = −c_t·e^(−s_t)·L_t + m_t/2.

        Args:
            losses: Σ weight·ℓ over each task's examples, before its factor, [T].
            mass: Σ weight over the same examples, without label weights, [T]: 1/P under task_mean with P
                tasks present. A task with 0 is absent.
            lr_factor: the schedule's factor on the learning rate.
        """
        if not self.learned:
            return
        loss, m_t = np.asarray(losses, np.float64), np.asarray(mass, np.float64)
        here = m_t > 0
        gradient = (m_t / 2 - self._c * np.exp(-self._s) * loss)[here]
        self._steps[here] += 1
        steps = self._steps[here]
        self._m[here] = BETAS[0] * self._m[here] + (1 - BETAS[0]) * gradient
        self._v[here] = BETAS[1] * self._v[here] + (1 - BETAS[1]) * gradient**2
        mean = self._m[here] / (1 - BETAS[0] ** steps)
        square = self._v[here] / (1 - BETAS[1] ** steps)
        self._s[here] -= self.lr * lr_factor * mean / (np.sqrt(square) + EPS)

    def report(self) -> dict[str, float]:
        """The factor of each task, for the log."""
        factors = self._c * np.exp(-self._s) if self.learned else self._fixed
        return dict(zip(self._names, factors.tolist(), strict=True))

    def state(self) -> dict[str, Any]:
        """The learned values by task, JSON-serializable; empty if the weights are configured."""
        if not self.learned:
            return {}
        columns = (self._s.tolist(), self._m.tolist(), self._v.tolist(), self._steps.tolist())
        return {
            name: {"s": s, "m": m, "v": v, "steps": steps}
            for name, s, m, v, steps in zip(self._names, *columns, strict=True)
        }

    def load_state(self, state: Mapping[str, Mapping[str, Any]]) -> None:
        """See `Component`."""
        for number, name in enumerate(self._names):
            if name in state:
                entry = state[name]
                self._s[number], self._m[number], self._v[number] = entry["s"], entry["m"], entry["v"]
                self._steps[number] = entry["steps"]

    def without_state(self, step: int) -> None:
        """See `Component`: a run from an older checkpoint, without learned weights, begins with 1."""
