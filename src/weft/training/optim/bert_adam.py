"""BERTAdam: the optimiser of the first BERT, with which PALs were trained."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor

from weft.errors import WeftError
from weft.training.optim.clip import local

EPS = 1e-6
SCHEDULES = ("linear", "constant")


class BertAdam(torch.optim.Optimizer):
    """Adam without bias correction, the decay inside the update, and a learning rate by own steps.

    For a parameter p with gradient g, of which k updates are done:

        m ← β₁·m + (1 − β₁)·g,   v ← β₂·v + (1 − β₂)·g²
        p ← p − lr·factor(k/steps)·(m/(√v + ε) + decay·p)

    k is the parameter's own: one that is used in few steps is warmed up for as many of its own. The first
    update has factor 0 where there is a warm-up: it fills m and v alone. State is AdamW's, by the same keys;
    `step` is k, a tensor on the host, since the factor is a number that the host gives to the kernels. With
    a tensor as a group's `lr` (a captured step) the factor is in it, and who sets it counts the steps.

    Args:
        params: parameters, or groups of them. A group with `constant: True` has factor 1.
        lr: the learning rate; the factor comes on top.
        betas: β₁ and β₂.
        eps: ε.
        weight_decay: the decay.
        steps: the steps of the run; None: the factor is 1.
        warmup: the share of the steps in which the rate rises.
        schedule: `linear` or `constant`; see `own_factor`.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = EPS,
        weight_decay: float = 0.01,
        steps: int | None = None,
        warmup: float = 0.0,
        schedule: str = "linear",
    ) -> None:
        if schedule not in SCHEDULES:
            raise WeftError(
                f"bert_adam has no schedule {schedule!r}; expected {' or '.join(SCHEDULES)}: "
                "set train.schedule, or train.optimizer: adamw"
            )
        self.steps, self.warmup, self.schedule = steps, warmup, schedule
        defaults = {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "constant": False}
        super().__init__(params, defaults)

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update every parameter that has a gradient."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            if isinstance(group["lr"], Tensor):
                for p in group["params"]:
                    self._state_of(p)
                self._update(group, group["params"], 1.0, group["lr"].device)
                continue
            # what has one owner has as a rule taken the same number of steps: one kernel for all of it
            alike: dict[tuple[float, torch.device, torch.dtype], list[Tensor]] = {}
            for p in group["params"]:
                if p.grad is not None:
                    done = float(self._state_of(p)["step"])
                    alike.setdefault((done, p.device, p.dtype), []).append(p)
            for (done, device, _), parameters in alike.items():
                self._update(group, parameters, self.factor(group, done), device)
                torch._foreach_add_([self.state[p]["step"] for p in parameters], 1.0)
        return loss

    def done(self, group: dict[str, Any]) -> float:
        """How many updates a group's first parameter has had."""
        return float(self._state_of(group["params"][0])["step"])

    def count(self) -> None:
        """One update more of every parameter, which something else has made."""
        every = [p for group in self.param_groups for p in group["params"]]
        torch._foreach_add_([self._state_of(p)["step"] for p in every], 1.0)

    def factor(self, group: dict[str, Any], done: float) -> float:
        """The share of the group's learning rate that an update after `done` others has."""
        if self.steps is None or group["constant"]:
            return 1.0
        return own_factor(done / self.steps, self.warmup, self.schedule)

    def lr_of_last(self, group: dict[str, Any]) -> float:
        """The learning rate of a group's last update, of the first where there was none; from its state."""
        state = self.state.get(group["params"][0], {})
        done = max(0.0, float(state["step"]) - 1) if "step" in state else 0.0
        rate = group.get("top", group["peak"]) if isinstance(group["lr"], Tensor) else group["lr"]
        return float(rate) * self.factor(group, done)

    def _state_of(self, parameter: Tensor) -> dict[str, Tensor]:
        state = self.state[parameter]
        if not state:
            state["step"] = torch.zeros(())
            state["exp_avg"] = torch.zeros_like(parameter)
            state["exp_avg_sq"] = torch.zeros_like(parameter)
        elif state["step"].device.type != "cpu":
            state["step"] = state["step"].cpu()  # once, after a checkpoint was loaded
        return state

    def _update(
        self, group: dict[str, Any], parameters: list[Tensor], factor: float, device: torch.device
    ) -> None:
        """One update of parameters that have taken the same number of steps.

        AdamW's kernel is p ← p·(1 − lr·decay) − lr·m̂/(√v̂ + ε), which is the update above but for the bias
        correction, m̂ = m/(1 − β₁ᵏ) and v̂ = v/(1 − β₂ᵏ): told that k is infinite, it has none.
        """
        states = [self.state[p] for p in parameters]
        # all of it is number by number, so that what is spread over processes is updated where it lies
        torch._fused_adamw_(
            [local(p) for p in parameters],
            [local(p.grad) for p in parameters if p.grad is not None],
            [local(s["exp_avg"]) for s in states],
            [local(s["exp_avg_sq"]) for s in states],
            [],
            [torch.full((), math.inf, device=device)] * len(parameters),
            lr=group["lr"] if isinstance(group["lr"], Tensor) else group["lr"] * factor,
            beta1=group["betas"][0],
            beta2=group["betas"][1],
            weight_decay=group["weight_decay"],
            eps=group["eps"],
            amsgrad=False,
            maximize=False,
            found_inf=getattr(self, "found_inf", None),
        )


def own_factor(x: float, warmup: float, schedule: str) -> float:
    """The share of the learning rate at x = own steps done/steps of the run.

    x/warmup if x < warmup; then 1 − x, which drops from 1 to 1 − warmup where the warm-up ends (`linear`), or
    1 (`constant`). Past the run's end it is zero, never negative.

    Args:
        x: the share of the run's steps that the parameter has taken.
        warmup: the share in which the rate rises.
        schedule: `linear` or `constant`.
    """
    if x < warmup:
        return x / warmup
    return 1.0 if schedule == "constant" else max(0.0, 1.0 - x)
