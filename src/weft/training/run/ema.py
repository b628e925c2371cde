"""The exponential moving average of the weights, which is also an example of a component."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from weft.errors import WeftError, words
from weft.training.optim.clip import local
from weft.training.optim.sharding import sharded_like
from weft.training.run.component import Component, RunContext, StepDone


class Ema(Component):
    """θ̄ ← d·θ̄ + (1 − d)·θ after every step, over all parameters that train.

    Evaluations, the best weights and the bundle use θ̄; training continues with θ. θ̄ begins at the initial
    weights and, like the optimizers, restarts after L0 gates have been decided. A checkpoint contains θ and
    θ̄, so that the final weights of a resumed run are bit-identical. Memory: one copy of what trains. The mean
    age of the weights in θ̄ is d/(1 − d) steps: choose d so that this is a small part of the run.

        weft.train(model, training, "runs/x", components=[weft.Ema(0.999)])  # or train.ema: 0.999

    Args:
        decay: d, between 0 and 1.
    """

    name = "ema"

    def __init__(self, decay: float = 0.999) -> None:
        if not 0 < decay < 1:
            raise WeftError(f"ema: expected a decay between 0 and 1, such as 0.999; found {decay!r}")
        self.decay = decay
        self._weights: dict[str, Tensor] = {}
        self._averages: dict[str, Tensor] = {}

    def begin(self, run: RunContext) -> None:
        """See `Component`."""
        super().begin(run)
        self._restart()

    def at_phase(self, resumed: bool) -> None:
        """See `Component`."""
        self._restart()

    @torch.no_grad()
    def after_step(self, done: StepDone) -> None:
        """See `Component`. The step may still be queued on the device; these kernels run after it."""
        averages = [local(average) for average in self._averages.values()]
        weights = [local(weight) for weight in self._weights.values()]
        torch._foreach_mul_(averages, self.decay)
        torch._foreach_add_(averages, weights, alpha=1 - self.decay)

    @contextmanager
    def around_evaluation(self) -> Iterator[None]:
        """Inside, θ̄ and θ are swapped: the parameters are θ̄."""
        self._swap()
        try:
            yield
        finally:
            self._swap()

    def state(self) -> dict[str, Any]:
        """See `Component`: θ̄ by the parameter's name."""
        return {"decay": self.decay, **self._averages}

    @torch.no_grad()
    def load_state(self, state: Mapping[str, Any]) -> None:
        """See `Component`."""
        if state["decay"] != self.decay:
            raise WeftError(
                f"ema: the run was started with decay {state['decay']} and cannot continue with "
                f"{self.decay}; resume with the same decay, or start a new run with a different "
                f"{words('--out', 'out')}"
            )
        odd = sorted((state.keys() - {"decay"}) ^ self._averages.keys())
        if odd:
            raise WeftError(
                f"ema: the checkpoint does not match the model: {odd[0]!r} is only in one of the two"
            )
        for name, average in self._averages.items():
            average.copy_(sharded_like(state[name], average))

    def _restart(self) -> None:
        """Set θ̄ = θ for the parameters that train now."""
        trained = self.run.model.named_parameters()
        self._weights = {name: parameter for name, parameter in trained if parameter.requires_grad}
        self._averages = {name: weight.detach().clone() for name, weight in self._weights.items()}

    @torch.no_grad()
    def _swap(self) -> None:
        # values, not tensors: optimizers and captured graphs hold the parameters' memory
        for name, weight in self._weights.items():
            here, there = local(weight), local(self._averages[name])
            held = here.clone()
            here.copy_(there)
            there.copy_(held)
