"""One optimizer per owner, so that a step updates only owners with an example in it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any, Literal, get_args

import torch
from torch import Tensor, nn

from weft.core.stacked import ENCODER, SHARED, StackedModule, task_owner
from weft.errors import WeftError, did_you_mean
from weft.model.ownership import Owned, owned
from weft.training.optim.bert_adam import EPS, BertAdam
from weft.training.optim.clip import NormOf, clip_each, clip_together, local, norms
from weft.training.optim.sharding import is_sharded
from weft.training.settings import LearningRates

if TYPE_CHECKING:
    from weft.model.model import Model

RateOf = Literal["encoder", "shared", "task", "gates"]
"""The roles that can have a separate learning rate."""

OptimizerName = Literal["adamw", "bert_adam"]

_GROUPS = ("decayed", "plain", "gate")


class OwnerOptimizers:
    """One AdamW or BertAdam per owner, over views of the (stacked) parameters.

    The step of an absent owner is skipped entirely: values, momentum, decay and step count do not change, as
    if its parameters had no gradient. Between steps gradients are zeros, never None, because the optimizers
    hold views of them. Weight decay applies to parameters of the role `weight`.

    Args:
        model: the model; its trainable parameters get zero gradients here.
        lr: the peak learning rate.
        weight_decay: the decay.
        betas: β₁ and β₂.
        eps: ε; by default 1e-8 with `adamw` and 1e-6 with `bert_adam`.
        gate_lr: the constant learning rate of parameters of the role `gate`, unless `lr_of` has one; without
            either, gates do not train.
        lr_of: peak learning rates by role (`rate_of`) and of single tasks (`peak_of`); what is left out uses
            `lr`.
        optimizer: `adamw` or `bert_adam`.
        steps: the steps of the run. If set, `bert_adam` follows its own schedule, by the updates that each
            parameter has had.
        warmup: the fraction of the steps in which the rate of `bert_adam` rises.
        schedule: the schedule of `bert_adam` after the warm-up, `linear` or `constant`.

    Attributes:
        optimizers: the optimizer of each owner.
        moved: the owners that have taken a step.
    """

    def __init__(
        self,
        model: Model,
        lr: float = 1e-3,
        weight_decay: float = 0.01,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float | None = None,
        gate_lr: float | None = None,
        lr_of: LearningRates | Mapping[str, Any] | None = None,
        optimizer: OptimizerName = "adamw",
        steps: int | None = None,
        warmup: float = 0.0,
        schedule: str = "linear",
    ) -> None:
        if optimizer not in get_args(OptimizerName):
            known = did_you_mean(optimizer, get_args(OptimizerName))
            raise WeftError(f"there is no optimizer {optimizer!r}; {known}")
        if eps is None:
            eps = EPS if optimizer == "bert_adam" else 1e-8
        self.model = model
        rates = lr_of if isinstance(lr_of, LearningRates) else LearningRates(**(lr_of or {}))
        if rates.gates is None:
            rates = rates.model_copy(update={"gates": gate_lr})
        self._views: dict[str, list[_View]] = {}
        self.optimizers: dict[str, torch.optim.Optimizer] = {}
        by_owner: dict[str, list[Owned]] = {}
        stacked: dict[nn.Parameter, bool] = {}
        for item in owned(model):
            if item.trains and (item.role != "gate" or rates.gates is not None):
                by_owner.setdefault(item.owner, []).append(item)
                if item.role != "gate":
                    stacked[item.parameter] = item.slot is not None
        # each parameter that is clipped, and whether its slots are clipped separately; in the model's order,
        # in which a global norm is summed
        self._clipped = {p: stacked[p] for p in model.parameters() if p in stacked}
        for owner, items in by_owner.items():
            views = self._views[owner] = [_View(item) for item in items]
            groups = _groups(views, lr, weight_decay, rates)
            if optimizer == "adamw":
                # fused: one kernel for the many small views of an owner
                self.optimizers[owner] = torch.optim.AdamW(groups, lr=lr, betas=betas, eps=eps, fused=True)
            else:
                self.optimizers[owner] = BertAdam(
                    groups, lr=lr, betas=betas, eps=eps, steps=steps, warmup=warmup, schedule=schedule
                )
        self.moved: set[str] = set()
        self._own_schedule = optimizer == "bert_adam" and steps is not None
        self._owners_of = owners_of_tasks(model)

    @property
    def lr(self) -> float:
        """The learning rate of the last step, of the first parameter group that is not of gates."""
        for optimizer in self.optimizers.values():
            for group in optimizer.param_groups:
                if not group["constant"]:
                    # from the state: a resumed run must log what the uninterrupted run would have logged
                    if isinstance(optimizer, BertAdam):
                        return optimizer.lr_of_last(group)
                    return float(group["lr"])
        return 0.0

    def set_factor(self, factor: float, peak: float | None = None) -> None:
        """Set every learning rate to its peak times `factor`; the rate of gates does not change.

        If `bert_adam` follows its own schedule, it uses `peak` and ignores `factor`.

        Args:
            factor: the factor on the peak, equal for every role.
            peak: the peak of parameters without a rate in `lr_of`; None: `lr`.
        """
        for optimizer in self.optimizers.values():
            for group in optimizer.param_groups:
                group["lr"] = self.rate(group, factor, peak)

    def rate(self, group: Mapping[str, Any], factor: float, peak: float | None = None) -> float:
        """The learning rate of a parameter group; see `set_factor`."""
        if group["constant"]:
            return float(group["peak"])
        top: float = group["peak"] if peak is None or group["has_own_rate"] else peak * group["times"]
        return top if self._own_schedule else top * factor

    def clip(
        self,
        max_norm: float | Tensor,
        by: Literal["global", "tensor"] = "global",
        leave_out: Collection[Tensor] = (),
        norm_of: NormOf = norms,
    ) -> None:
        """Clip gradients by their norm; gates are neither clipped nor counted.

        Gates are left out because their presence must not change the steps of the weights.

        Args:
            max_norm: the largest norm that is not scaled; a tensor [] in a captured step.
            by: `global`: one norm over all gradients, all scaled by one factor; `tensor`: one norm for each
                owner's slice of each parameter (a slot of a stacked one, or a whole one).
            leave_out: parameters that are neither clipped nor counted.
            norm_of: computes the norm of each tensor.
        """
        skipped = {id(p) for p in leave_out}
        gradients = [
            (p.grad, stacked)
            for p, stacked in self._clipped.items()
            if p.grad is not None and id(p) not in skipped
        ]
        if by == "tensor":
            clip_each(gradients, max_norm, norm_of)
        else:
            clip_together([gradient for gradient, _ in gradients], max_norm, norm_of)

    def present(self, tasks: Collection[int]) -> set[str]:
        """The owners that a step with examples of these task ids updates."""
        return {owner for task in tasks for owner in self._owners_of[task]} & set(self.optimizers)

    def step(self, tasks: Collection[int], drifting: Collection[int] = ()) -> None:
        """Update the owners of these tasks, and no other.

        Args:
            tasks: the ids of the tasks with an example in this step.
            drifting: the ids of tasks that move without an example, by momentum and decay. Their owners are
                updated if they have been updated before: until its first example an owner has no momentum.
        """
        for owner in sorted(self.moved_by(tasks, drifting)):
            self.follow(owner)
            self.optimizers[owner].step()

    def moved_by(self, tasks: Collection[int], drifting: Collection[int] = ()) -> set[str]:
        """The owners that a step updates; they are added to `moved`. See `step`."""
        owners = self.present(tasks) | (self.present(drifting) & self.moved)
        self.moved |= owners
        return owners

    def follow(self, owner: str) -> None:
        """Point an owner's optimizer to the present gradients."""
        for view in self._views[owner]:
            view.follow()

    def zero_grad(self) -> None:
        """Set every gradient to zero, in place."""
        gradients = [local(p.grad) for p in self.model.parameters() if p.grad is not None]
        torch._foreach_zero_(gradients)

    def parameters(self, owner: str) -> list[Tensor]:
        """An owner's views in the order in which a checkpoint numbers them.

        They are ordered by decay, then as in the model. Sharding does not change the order.
        """
        return [v.tensor for v in sorted(self._views[owner], key=lambda v: _GROUPS.index(v.group))]

    def state_dict(self) -> dict[str, Any]:
        """The optimizers' states, by owner."""
        return {owner: optimizer.state_dict() for owner, optimizer in self.optimizers.items()}


def rate_of(item: Owned) -> RateOf:
    """The role whose learning rate a parameter uses.

    Gates have a separate rate. Parameters in the encoder use the encoder's, whoever owns them: under
    `separate` each task owns an encoder, whose weights are as pretrained as shared ones. The rate of adapters
    and heads depends on their owner: `task` for one task, `shared` for a group or all tasks.
    """
    if item.role == "gate":
        return "gates"
    if item.part == "encoder":
        return "encoder"
    return "task" if item.owner.startswith("task:") else "shared"


def peak_of(item: Owned, rates: LearningRates) -> float | None:
    """The peak learning rate that is set for a parameter; None: `train.lr`.

    A rate of the task that owns the parameter comes before the rate of its role. It applies to all that
    belongs to that task: its adapters, its head and, under `separate`, its encoder; not to its gates, whose
    rate is constant.
    """
    role = rate_of(item)
    kind, _, task = item.owner.partition(":")
    if role != "gates" and kind == "task" and task in (rates.tasks or {}):
        return (rates.tasks or {})[task]
    peak: float | None = getattr(rates, role)
    return peak


def owners_of_tasks(model: Model) -> list[set[str]]:
    """For each task id, the owners whose parameters its rows run through."""
    owners = [{ENCODER, SHARED, task_owner(task.name)} for task in model.tasks]
    for module in model.modules():
        if isinstance(module, StackedModule):
            for stack in module.stacks.values():
                for task, slot in enumerate(stack.slots.of_task):
                    owner = stack.slots.owners[slot]
                    if owner.startswith("group:"):
                        owners[task].add(owner)
    return owners


def _groups(views: list[_View], lr: float, weight_decay: float, rates: LearningRates) -> list[dict[str, Any]]:
    """The parameter groups of one owner, by decay, by learning rate, and by whether they are sharded."""
    by_key: dict[tuple[int, float | None, float, bool], list[Tensor]] = {}
    for view in views:
        # fused kernels refuse a list that mixes sharded and plain tensors
        item = view.item
        key = (_GROUPS.index(view.group), peak_of(item, rates), item.rate, is_sharded(view.tensor))
        by_key.setdefault(key, []).append(view.tensor)
    groups = []
    # by decay first, then in the order of the parameters
    for (number, set_rate, times, _), params in sorted(by_key.items(), key=lambda entry: entry[0][0]):
        peak = (lr if set_rate is None else set_rate) * times
        is_gate = _GROUPS[number] == "gate"
        groups.append(
            {
                "params": params,
                "weight_decay": weight_decay if _GROUPS[number] == "decayed" else 0.0,
                "lr": peak,
                "peak": peak,
                "has_own_rate": set_rate is not None,
                "times": times,
                "constant": is_gate,
            }
        )
    return groups


class _View:
    """An owner's slice of a parameter, as a parameter that shares its memory and its gradient's."""

    def __init__(self, item: Owned) -> None:
        self.item = item
        self.group = {"weight": "decayed", "gate": "gate"}.get(item.role, "plain")
        whole = item.parameter
        if whole.grad is None:
            whole.grad = torch.zeros_like(whole)
        self.tensor = whole if item.slot is None else nn.Parameter(whole.data[item.slot])
        self._grad: Tensor | None = None
        self._memory = _memory(whole)
        self.follow()

    def follow(self) -> None:
        """Take the view of the present gradient, which `zero_grad` elsewhere may have replaced."""
        whole, slot = self.item.parameter, self.item.slot
        if _memory(whole) != self._memory:
            raise WeftError(
                f"{self.item.name} has moved in memory since its optimizer was created; "
                "create OwnerOptimizers after model.to(…)"
            )
        if slot is not None and whole.grad is not self._grad:
            self._grad = whole.grad
            self.tensor.grad = None if whole.grad is None else whole.grad[slot]


def _memory(parameter: Tensor) -> int | None:
    """The address of a parameter; None if it is sharded: FSDP may move it, and no view of it is taken."""
    return None if is_sharded(parameter) else parameter.data_ptr()
