"""BERTAdam: the optimizer of the original BERT code, which PALs were trained with."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor

from weft.errors import WeftError, train_key
from weft.training.optim.clip import local

EPS = 1e-6
SCHEDULES = ("linear", "constant")


class BertAdam(torch.optim.Optimizer):
    """Adam without bias correction, with decay inside the update and a schedule per parameter.

    For a parameter p with gradient g that has had k updates:

        m ← β₁·m + (1 − β₁)·g,   v ← β₂·v + (1 − β₂)·g²
        p ← p − lr·factor(k/steps)·(m/(√v + ε) + decay·p)

    k counts the updates of this parameter: a parameter that is used in few steps is warmed up over as many of
    its updates. With a warm-up the first update has factor 0 and only fills m and v. The state has AdamW's
    keys; `step` is k, a tensor on the host, because the host passes the factor to the kernels. If a group's
    `lr` is a tensor (a captured step), it contains the factor, and the code that sets it counts the steps.

    Args:
        params: parameters, or groups of them. A group with `constant: True` has factor 1.
        lr: the learning rate, which is multiplied by the factor.
        betas: β₁ and β₂.
        eps: ε.
        weight_decay: the decay.
        steps: the steps of the run; None: the factor is 1.
        warmup: the fraction of the steps in which the rate rises.
        schedule: `linear` or `constant`; see `schedule_factor`.
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
                f"set {train_key('schedule')}, or the optimizer adamw"
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
            # parameters of one owner have usually had the same number of updates: one kernel for all of them
            batches: dict[tuple[float, torch.device, torch.dtype], list[Tensor]] = {}
            for p in group["params"]:
                if p.grad is not None:
                    done = float(self._state_of(p)["step"])
                    batches.setdefault((done, p.device, p.dtype), []).append(p)
            for (done, device, _), parameters in batches.items():
                self._update(group, parameters, self.factor(group, done), device)
                torch._foreach_add_([self.state[p]["step"] for p in parameters], 1.0)
        return loss

    def done(self, group: dict[str, Any]) -> float:
        """The number of updates that a group's first parameter has had."""
        return float(self._state_of(group["params"][0])["step"])

    def count(self) -> None:
        """Count one update of every parameter that a captured step has made."""
        parameters = [p for group in self.param_groups for p in group["params"]]
        torch._foreach_add_([self._state_of(p)["step"] for p in parameters], 1.0)

    def factor(self, group: dict[str, Any], done: float) -> float:
        """The factor on the group's learning rate for the update after `done` updates."""
        if self.steps is None or group["constant"]:
            return 1.0
        return schedule_factor(done / self.steps, self.warmup, self.schedule)

    def lr_of_last(self, group: dict[str, Any]) -> float:
        """The learning rate of a group's last update, or of its first if there was none; from its state."""
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
        """Update parameters that have had the same number of updates.

        AdamW's kernel is p ← p·(1 − lr·decay) − lr·m̂/(√v̂ + ε), which is the update above except for the bias
        correction, m̂ = m/(1 − β₁ᵏ) and v̂ = v/(1 − β₂ᵏ). With k = ∞ there is no correction.
        """
        states = [self.state[p] for p in parameters]
        # the update is elementwise, so each process updates its shard of a sharded parameter
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


def schedule_factor(x: float, warmup: float, schedule: str) -> float:
    """The factor on the learning rate at x = updates of the parameter / steps of the run.

    x/warmup if x < warmup; then 1 − x, which drops from 1 to 1 − warmup when the warm-up ends (`linear`), or
    1 (`constant`). Past the end of the run it is zero, never negative.

    Args:
        x: the parameter's updates as a fraction of the run's steps.
        warmup: the fraction in which the rate rises.
        schedule: `linear` or `constant`.
    """
    if x < warmup:
        return x / warmup
    return 1.0 if schedule == "constant" else max(0.0, 1.0 - x)
