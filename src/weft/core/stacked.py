"""Parameters that differ between tasks, stacked along a first dimension of *slots*, [S, …].

A row's task id selects its slot (`weft.core.route`). Every slot has an owner: the encoder, all tasks
together, a group of tasks or one task.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from weft.core.route import Route
from weft.errors import WeftError, did_you_mean
from weft.kernels.dispatch import Mix, select, stacked_linear
from weft.utils.seeding import generator

Role = Literal["weight", "bias", "norm", "gate"]
"""The role of a parameter, declared where it is created. Weight decay applies to the role `weight` only."""

ENCODER = "encoder"
SHARED = "shared"


def task_owner(name: str) -> str:
    """Return the owner of the parameters of one task."""
    return f"task:{name}"


def group_owner(name: str) -> str:
    """Return the owner of the parameters of a named group of tasks."""
    return f"group:{name}"


@dataclass(frozen=True)
class Slots:
    """The owner of each slot of a stacked parameter, and the slot of each task.

    Attributes:
        owners: the owner of each slot, [S].
        of_task: the slot of each task, [T].
    """

    owners: tuple[str, ...]
    of_task: tuple[int, ...]

    @classmethod
    def per_task(cls, tasks: Sequence[str]) -> Slots:
        """One slot per task."""
        return cls(tuple(task_owner(t) for t in tasks), tuple(range(len(tasks))))

    @classmethod
    def one(cls, tasks: Sequence[str]) -> Slots:
        """One slot for all tasks."""
        return cls((SHARED,), (0,) * len(tasks))

    @classmethod
    def grouped(cls, tasks: Sequence[str], groups: Mapping[str, Sequence[str]]) -> Slots:
        """One slot per named group; a task in no group has a separate slot."""
        group_of: dict[str, str] = {}
        for group, members in groups.items():
            if not members:
                raise WeftError(f"group {group!r} has no task; expected some of {', '.join(tasks)}")
            for task in members:
                if task not in tasks:
                    raise WeftError(f"group {group!r} names the task {task!r}; {did_you_mean(task, tasks)}")
                if task in group_of:
                    raise WeftError(f"task {task!r} is in two groups, {group_of[task]!r} and {group!r}")
                group_of[task] = group
        holders = [group_owner(group_of[t]) if t in group_of else task_owner(t) for t in tasks]
        owners = tuple(dict.fromkeys(holders))
        return cls(owners, tuple(owners.index(h) for h in holders))

    def __len__(self) -> int:
        return len(self.owners)

    @property
    def is_shared(self) -> bool:
        """Whether all tasks use one slot, so no look-up is needed."""
        return self.owners == (SHARED,)

    @property
    def is_identity(self) -> bool:
        """Whether each task's slot number equals its id."""
        return self.of_task == tuple(range(len(self.owners)))


@dataclass(frozen=True)
class Stack:
    """How a stacked parameter was declared.

    Attributes:
        slots: its slots.
        role: its role.
        constant: whether it never trains: a factor that is computed or drawn once, and saved with the model.
        rate: what its learning rate is multiplied by.
    """

    slots: Slots
    role: Role
    constant: bool = False
    rate: float = 1.0


Init = Callable[[Tensor, torch.Generator], object]


class StackedModule(nn.Module):
    """A module with parameters [S, …], one entry per slot.

    Subclasses declare parameters with `stack`, initialize them with `start`, read vectors with `take` and
    apply linear maps with `mapped`, which picks the cheapest strategy for a batch of several tasks.

    Attributes:
        stacks: how each stacked parameter was declared, by name.
    """

    def __init__(self) -> None:
        super().__init__()
        self.stacks: dict[str, Stack] = {}

    def stack(
        self,
        name: str,
        shape: Sequence[int],
        slots: Slots,
        role: Role,
        constant: bool = False,
        rate: float = 1.0,
    ) -> None:
        """Declare the parameter `name` of shape [S, *shape]; `start` fills it; a constant never trains."""
        parameter = nn.Parameter(torch.empty(len(slots), *shape), requires_grad=not constant)
        self.register_parameter(name, parameter)
        self.stacks[name] = Stack(slots, role, constant, rate)
        if not (slots.is_shared or slots.is_identity):
            # not persistent: it follows from the model's tasks, and a file of one task must not hold it
            index = torch.tensor(slots.of_task, dtype=torch.long)
            self.register_buffer(f"_{name}_slot", index, persistent=False)

    @torch.no_grad()
    def start(self, name: str, init: Init, seed: int, place: str) -> None:
        """Fill each slot of `name` by `init(tensor, generator)`, seeded by `seed`, its owner and `place`."""
        parameter = self.get_parameter(name)
        if parameter.is_meta:
            return
        for slot, owner in enumerate(self.stacks[name].slots.owners):
            value = torch.empty(parameter.shape[1:], device="cpu")  # the generator is a CPU generator
            init(value, generator(seed, owner, place, name))
            parameter[slot].copy_(value)

    def take(self, name: str, route: Route) -> Tensor:
        """Return the parameter of each row: [R, …], or [1, …] if all rows use one slot."""
        return self.of_rows(self.get_parameter(name), name, route)

    def of_rows(self, stacked: Tensor, name: str, route: Route) -> Tensor:
        """Look up a tensor with the slots of the parameter `name`, [S, …], for each row: [R, …] or [1, …]."""
        stacked, mix = self.mixed(stacked, name, route)
        return stacked if mix is None else select(stacked, mix.slot)

    def mixed(self, stacked: Tensor, name: str, route: Route) -> tuple[Tensor, Mix | None]:
        """Return a tensor with the slots of the parameter `name`, and each row's slot.

        Both are arguments of `weft.kernels.dispatch`.

        Returns:
            [S, …] and the rows' slots, or [1, …] and None if all rows use one slot.
        """
        slots = self.stacks[name].slots
        # a slot that only some tasks use is gathered: a head must not change when a new one has its shape
        if slots.is_shared or len(slots.of_task) == 1:
            return stacked, None
        if route.only is not None:
            slot = slots.of_task[route.only]
            return stacked[slot : slot + 1], None
        if slots.is_identity:
            return stacked, Mix(route.task, route.ends, route.counts, route.kernels)
        # the slots have a different order than the tasks: rows sorted by task are not sorted by slot
        return stacked, Mix(select(self.get_buffer(f"_{name}_slot"), route.task), setting=route.kernels)

    def mapped(
        self,
        x: Tensor,
        name: str,
        route: Route,
        bias: str | None = None,
        weight: Tensor | None = None,
        shift: Tensor | None = None,
    ) -> Tensor:
        """Map each row by its slot's weight: [R, L, i] → [R, L, o].

        Args:
            x: [R, L, i].
            name: the name of the map's parameter, [S, o, i].
            route: the batch's route.
            bias: the name of its bias parameter, [S, o], of the same slots.
            weight: a tensor to use instead of the parameter, [S, o, i], for example one computed from it.
            shift: a tensor to use instead of the bias parameter, [S, o].
        """
        maps, mix = self.mixed(self.get_parameter(name) if weight is None else weight, name, route)
        if bias is not None:
            shift, _ = self.mixed(self.get_parameter(bias) if shift is None else shift, bias, route)
        return stacked_linear(x, maps, mix, shift)
