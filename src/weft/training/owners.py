"""One optimiser for each owner, so that a step leaves alone whoever had no example in it."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from weft.errors import WeftError
from weft.ownership import Owned, owned
from weft.routing import ENCODER, SHARED, StackedModule, task_owner

if TYPE_CHECKING:
    from weft.model import Model


class OwnerOptimizers:
    """An AdamW for each owner over views of the (stacked) parameters.

    An absent owner's step is skipped whole: values, momentum, decay and step count stay as they are, as if
    its parameters had no gradient. Gradients are kept as zeros between steps, never as None, since the views
    look into them. Weight decay is given to parameters of the role `weight`.

    Args:
        model: the model; its trainable parameters get zero gradients here.
        lr: the learning rate.
        weight_decay: AdamW's decay.
        betas: AdamW's β.
        eps: AdamW's ε.
        gate_lr: the constant learning rate of parameters of the role `gate`; None leaves them as they are.
    """

    def __init__(
        self,
        model: Model,
        lr: float = 1e-3,
        weight_decay: float = 0.01,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        gate_lr: float | None = None,
    ) -> None:
        self.model = model
        self._views: dict[str, list[_View]] = {}
        self.optimizers: dict[str, torch.optim.AdamW] = {}
        by_owner: dict[str, list[Owned]] = {}
        for item in owned(model):
            if item.trains and (gate_lr is not None or item.role != "gate"):
                by_owner.setdefault(item.owner, []).append(item)
        for owner, items in by_owner.items():
            views = self._views[owner] = [_View(item) for item in items]
            groups = [
                {"params": params, "weight_decay": decay, "lr": rate, "constant": name == "gate"}
                for name, decay, rate in (
                    ("decayed", weight_decay, lr),
                    ("plain", 0.0, lr),
                    ("gate", 0.0, gate_lr),
                )
                if (params := [v.tensor for v in views if v.group == name])
            ]
            # fused: one kernel for an owner's many small views
            self.optimizers[owner] = torch.optim.AdamW(groups, lr=lr, betas=betas, eps=eps, fused=True)
        self._owners_of = owners_of_tasks(model)

    @property
    def lr(self) -> float:
        """The learning rate of the last step."""
        groups = (g for o in self.optimizers.values() for g in o.param_groups if not g["constant"])
        return float(next((g["lr"] for g in groups), 0.0))

    def set_lr(self, lr: float) -> None:
        """Set every owner's learning rate; that of gates stays."""
        for optimizer in self.optimizers.values():
            for group in optimizer.param_groups:
                if not group["constant"]:
                    group["lr"] = lr

    def present(self, tasks: Collection[int]) -> set[str]:
        """The owners that a step with examples of these task ids moves."""
        return {owner for task in tasks for owner in self._owners_of[task]} & set(self.optimizers)

    def step(self, tasks: Collection[int]) -> None:
        """Move the owners of these tasks, and no other."""
        for owner in sorted(self.present(tasks)):
            for view in self._views[owner]:
                view.follow()
            self.optimizers[owner].step()

    def zero_grad(self) -> None:
        """Set every gradient to zero, in place."""
        gradients = [p.grad for p in self.model.parameters() if p.grad is not None]
        torch._foreach_zero_(gradients)

    def state_dict(self) -> dict[str, Any]:
        """The optimisers' states, by owner."""
        return {owner: optimizer.state_dict() for owner, optimizer in self.optimizers.items()}


def owners_of_tasks(model: Model) -> list[set[str]]:
    """For each task id, the owners whose parameters its rows run through."""
    found = [{ENCODER, SHARED, task_owner(task.name)} for task in model.tasks]
    for module in model.modules():
        if isinstance(module, StackedModule):
            for stack in module.stacks.values():
                for task, slot in enumerate(stack.slots.of_task):
                    owner = stack.slots.owners[slot]
                    if owner.startswith("group:"):
                        found[task].add(owner)
    return found


class _View:
    """An owner's part of a parameter, as a parameter over the same memory, gradient included."""

    def __init__(self, item: Owned) -> None:
        self.item = item
        self.group = {"weight": "decayed", "gate": "gate"}.get(item.role, "plain")
        whole = item.parameter
        if whole.grad is None:
            whole.grad = torch.zeros_like(whole)
        self.tensor = whole if item.slot is None else nn.Parameter(whole.data[item.slot])
        self._grad: Tensor | None = None
        self._memory = whole.data_ptr()
        self.follow()

    def follow(self) -> None:
        """Look into the gradient there is now: `zero_grad` elsewhere may have put another in its place."""
        whole, slot = self.item.parameter, self.item.slot
        if whole.data_ptr() != self._memory:
            raise WeftError(
                f"{self.item.name} has moved in memory since its optimiser was made; "
                "make OwnerOptimizers after model.to(…)"
            )
        if slot is not None and whole.grad is not self._grad:
            self._grad = whole.grad
            self.tensor.grad = None if whole.grad is None else whole.grad[slot]
