"""The gradients of a step's tasks, stored separately and merged at the end of the step."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from weft.core.stacked import ENCODER, SHARED, task_owner
from weft.errors import Diverged, WeftError, train_key
from weft.model.ownership import Owned, owned
from weft.training.conflict.conflict import Conflict, Merged
from weft.training.conflict.telemetry import Telemetry
from weft.training.optim.owners import owners_of_tasks

if TYPE_CHECKING:
    from weft.model.model import Model
    from weft.utils.processes import Processes

WORKING = {"cpu": 2**18}
"""How many gradient values are converted to float64 at a time: on a CPU what fits its cache, else 2²⁴."""


@dataclass
class Share:
    """The parameters of an owner that several tasks use, and each task's gradient of them.

    Attributes:
        items: the owner's parameters.
        tasks: the numbers of the tasks that use them.
        held: the gradients of the tasks so far in this step.
        free: buffers of previous steps, for further tasks.
    """

    items: list[Owned]
    tasks: frozenset[int]
    held: dict[int, list[Tensor]] = field(default_factory=dict)
    free: list[list[Tensor]] = field(default_factory=list)

    def gradients(self) -> list[Tensor]:
        """The gradients of its parameters, as views."""
        return [_gradient(item) for item in self.items]

    def hold(self, task: int) -> None:
        """Add the present gradients to the task's, and set `p.grad` to zero."""
        gradients = self.gradients()
        if task in self.held:
            torch._foreach_add_(self.held[task], gradients)
        else:
            self.held[task] = self._memory(gradients)
            torch._foreach_copy_(self.held[task], gradients)
        torch._foreach_zero_(gradients)

    def hold_nothing(self, task: int) -> None:
        """Store zeros for a task whose examples are in another process."""
        if task not in self.held:
            self.held[task] = self._memory(self.gradients())
            torch._foreach_zero_(self.held[task])

    def release(self) -> None:
        """Drop all gradients; their buffers are kept."""
        self.free += self.held.values()
        self.held = {}

    def _memory(self, like: list[Tensor]) -> list[Tensor]:
        if self.free:
            return self.free.pop()
        return [torch.empty_like(g, memory_format=torch.contiguous_format) for g in like]


class TaskGradients:
    """Stores each task's gradient of shared parameters and merges these gradients at the end of a step.

    In a step with P tasks present, each micro-batch and each task t in it run the backward pass of
    P·Σ weight·ℓ over t's examples, followed by `after_backward(t)`; `finish` comes last. Memory: P times the
    shared parameters that train, allocated once and reused. Gradients of parameters that one task owns stay
    in `p.grad`. Further terms of the loss, such as a penalty on gates, come after `finish` and add to
    `p.grad`.

    Args:
        model: the model; if other parameters begin to train, create a new `TaskGradients`.
        conflict: the method that merges gradients.
        names: the names of the tasks that train, [T]; a task's number is its position here.
        ids: the model's id of each task, [T].
        processes: the processes that train together; all gradients are summed over them. None: one process.

    Attributes:
        conflict: the method that merges gradients, with its state.
        telemetry: the cosines of the tasks' gradients since the last evaluation.
        shares: whether tasks share anything that trains; if not, merging changes nothing.
        shared: the parameters that several tasks use, by owner.
        task_items: the parameters that each task owns, [T] lists.
        names: the names of the tasks, [T].
    """

    def __init__(
        self,
        model: Model,
        conflict: Conflict,
        names: Sequence[str],
        ids: Iterable[int],
        processes: Processes | None = None,
    ) -> None:
        if model.method.separate:
            raise WeftError(
                f"train.conflict {conflict.name!r}: with method 'separate' every weight belongs to one task, "
                "so no shared gradients can conflict; leave conflict out, or choose a method that "
                "shares weights, such as full"
            )
        self.conflict = conflict.of(names)
        self.telemetry = Telemetry(names)
        self.names, self._processes = tuple(names), processes
        owners = [owners_of_tasks(model)[int(i)] for i in ids]
        by_owner: dict[str, list[Owned]] = {}
        for item in owned(model):
            if not item.trains:
                continue
            if hasattr(item.parameter, "full_tensor"):
                raise WeftError(
                    f"train.conflict {conflict.name!r} needs whole gradients in every process; "
                    "found train.parallel: fsdp, expected ddp"
                )
            by_owner.setdefault(item.owner, []).append(item)
        self.task_items = [by_owner.get(task_owner(name), []) for name in names]
        everyone = frozenset(range(len(self.names)))
        self.shared = []
        for owner, items in by_owner.items():
            tasks = frozenset(t for t in everyone if owner in owners[t])
            if owner in (ENCODER, SHARED) or owner.startswith("group:"):
                self.shared.append(Share(items, tasks))
        self.shared = [share for share in self.shared if share.tasks]
        self.shares = any(len(share.tasks) > 1 for share in self.shared)
        self._seen: set[int] = set()

    def zero(self) -> None:
        """Begin a step: drop all stored gradients. The optimizers set `p.grad` to zero."""
        for share in self.shared:
            share.release()
        self._seen = set()

    @torch.no_grad()
    def after_backward(self, task: int) -> None:
        """Store what the backward pass of a task's loss added to `p.grad` of shared parameters.

        Args:
            task: the task's number among those that train.
        """
        self._seen.add(task)
        for share in self.shared:
            if task in share.tasks:
                share.hold(task)

    @torch.no_grad()
    def finish(self, seed: int) -> Merged | None:
        """End a step: write the merged gradient to `p.grad`.

        Args:
            seed: the seed of this step, equal in every process.

        Returns:
            The weights of the tasks' gradients; None if no task was present.
        """
        present = self._present()
        if not present:
            return None
        self._sum(present)
        gramian = self._gramian(present)
        merged = self.weigh(
            present, gramian, self._task_squares(present) if self.conflict.whole else None, seed
        )
        self.count(present, gramian)
        self._write(present, merged)
        self.zero()
        return merged

    def weigh(self, present: list[int], gramian: Tensor, task_squares: Tensor | None, seed: int) -> Merged:
        """The weights of the tasks' gradients; a gradient that is not finite ends the run.

        Args:
            present: the numbers of the tasks with examples in the step, in ascending order, [P].
            gramian: the products of their gradients over shared parameters, [P, P] float64 on the host.
            task_squares: the squared norm of each task's gradient of the parameters that it owns, [P]; needed
                if the method compares gradients over all parameters (`Conflict.whole`).
            seed: the seed of this step, equal in every process.
        """
        if not torch.isfinite(gramian).all():
            bad = [
                self.names[t] for t, g in zip(present, gramian.diagonal(), strict=True) if not g.isfinite()
            ]
            raise Diverged(
                f"the gradient of task {', '.join(bad)} is not finite; the run diverged.\n"
                f"  start again with a smaller {train_key('lr')}, or with {train_key('clip')} set"
            )
        if len(present) == 1:
            plain = torch.ones(1, dtype=torch.float64)
            return Merged(plain, plain, plain)
        if self.conflict.whole:
            assert task_squares is not None
            gramian = gramian + torch.diag(task_squares)
        return self.conflict.merge(gramian, present, seed)

    def count(self, present: list[int], gramian: Tensor) -> None:
        """Count the cosines of a step; for the arguments see `weigh`."""
        self.telemetry.add(gramian, present, self._related(present))

    def state(self) -> dict[str, Any]:
        """The state between steps, JSON-serializable."""
        return {"conflict": self.conflict.state(), "telemetry": self.telemetry.state()}

    def load(self, state: dict[str, Any]) -> None:
        """Restore the result of `state`."""
        self.conflict.load(state["conflict"])
        self.telemetry.load(state["telemetry"])

    def _present(self) -> list[int]:
        """The numbers of the tasks with examples in any process, in ascending order."""
        if self._processes is None or self._processes.world == 1:
            return sorted(self._seen)
        seen = torch.zeros(len(self.names), device=self._device())
        seen[list(self._seen)] = 1
        self._processes.sum_([seen])
        return [task for task, count in enumerate(seen.tolist()) if count]

    def _sum(self, present: list[int]) -> None:
        """Sum the gradients over the processes, one task at a time, so that at most one copy is made."""
        if self._processes is None or self._processes.world == 1:
            return
        for task in present:
            gradients = [_gradient(item) for item in self.task_items[task]]
            for share in self.shared:
                if task in share.tasks:
                    share.hold_nothing(task)
                    gradients += share.held[task]
            self._processes.sum_(gradients)

    def _gramian(self, present: list[int]) -> Tensor:
        """The products of the tasks' gradients over shared parameters, [P, P] float64 on the host."""
        total = torch.zeros(len(present), len(present), dtype=torch.float64, device=self._device())
        for share in self.shared:
            rows = [row for row, task in enumerate(present) if task in share.held]
            if rows:
                at = torch.tensor(rows, device=total.device)
                held = [share.held[present[row]] for row in rows]
                part = torch.zeros(len(rows), len(rows), dtype=torch.float64, device=total.device)
                for tensors in zip(*held, strict=True):
                    _add_products(part, tensors)
                total[at[:, None], at] += part
        return ((total + total.T) / 2).cpu()

    def _task_squares(self, present: list[int]) -> Tensor:
        """The squared norm of each task's gradient of the parameters that it owns, [P]."""
        squares = []
        for task in present:
            terms = [
                torch.linalg.vector_norm(_gradient(item), dtype=torch.float64).square()
                for item in self.task_items[task]
            ]
            squares.append(float(torch.stack(terms).sum()) if terms else 0.0)
        return torch.tensor(squares, dtype=torch.float64)

    def _related(self, present: list[int]) -> Tensor:
        """Which pairs share something that trains, [P, P]."""
        related = torch.zeros(len(present), len(present), dtype=torch.bool)
        for share in self.shared:
            inside = torch.tensor([task in share.tasks for task in present])
            related |= inside[:, None] & inside
        return related

    def _write(self, present: list[int], merged: Merged) -> None:
        for share in self.shared:
            weights = merged.all if share.tasks.issuperset(present) else merged.some
            gradients = share.gradients()
            for task, weight in zip(present, weights.tolist(), strict=True):
                if task in share.held:
                    # the gradients were set to zero when the last task's were moved
                    torch._foreach_add_(gradients, share.held[task], alpha=weight)
        for task, weight in zip(present, merged.single.tolist(), strict=True):
            if self.task_items[task] and weight != 1:
                torch._foreach_mul_([_gradient(item) for item in self.task_items[task]], weight)

    def _device(self) -> torch.device:
        items = [item for share in self.shared for item in share.items]
        items = items or [item for task_items in self.task_items for item in task_items]
        return items[0].parameter.device if items else torch.device("cpu")


def _gradient(item: Owned) -> Tensor:
    """The gradient of one owner's slice of a parameter, as a view; zeros are created if there is none."""
    whole = item.parameter
    if whole.grad is None:
        whole.grad = torch.zeros_like(whole)
    return whole.grad if item.slot is None else whole.grad[item.slot]


def _add_products(total: Tensor, tensors: Sequence[Tensor]) -> None:
    """total[i, j] += tensors[i]·tensors[j], in float64 and in blocks, [P, P]."""
    flat = [tensor.view(-1) for tensor in tensors]
    width = max(1, WORKING.get(total.device.type, 2**24) // len(flat))
    for first in range(0, flat[0].numel(), width):
        block = torch.stack([gradient[first : first + width] for gradient in flat]).double()  # [P, width]
        total.addmm_(block, block.T)
