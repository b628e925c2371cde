"""The initial values of a new task: copied from another task, the mean of all tasks, or random."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from weft.core.stacked import StackedModule, task_owner
from weft.errors import WeftError
from weft.tasks.checks import STARTS
from weft.utils.seeding import generator

if TYPE_CHECKING:
    from weft.model.model import Model


@dataclass(frozen=True)
class OwnedTensor:
    """One tensor that belongs to the new task, outside its head.

    Attributes:
        name: the name of the parameter; random values are keyed by it.
        of_task: the tensor of each task, by task id, as views; for a member of a group that of the group.
        vector: whether it is the vector that represents the task in the method.
    """

    name: str
    of_task: tuple[Tensor, ...]
    vector: bool


class StartValues:
    """The possible initial values of a new task.

    Args:
        model: the model, in which the new task has the method's initial values.
        name: the name of the new task.

    Attributes:
        tensors: the tensors that belong to the new task, outside its head.
        others: the names of the other tasks.
    """

    def __init__(self, model: Model, name: str) -> None:
        self.model, self.name, self.new = model, name, model.task_id(name)
        self.others = [task.name for task in model.tasks if task.name != name]
        self.tensors = list(_owned_tensors(model, self.new))
        self._random = [tensor.of_task[self.new].clone() for tensor in self.tensors]

    @property
    def embeds(self) -> bool:
        """Whether the method represents a task by a vector."""
        return any(tensor.vector for tensor in self.tensors)

    def candidates(self) -> list[str]:
        """All possible starts: every other task, their mean, the method's and, for a vector, Xavier's."""
        named = [name for name in self.others if name not in STARTS]  # a task may have the name of a start
        mean = ["average"] if self.tensors else []
        return [*named, *mean, "random", *(["xavier"] if self.embeds else [])]

    @torch.no_grad()
    def take(self, start: str) -> None:
        """Set the initial values of the new task.

        Args:
            start: a task's name; `average`; `random`, the method's initial values; or `xavier`: vectors [d]
                are uniform in ±√(6/(T + d)), where T includes the new task.
        """
        for tensor, random in zip(self.tensors, self._random, strict=True):
            tensor.of_task[self.new].copy_(self._value(start, tensor, random))

    def _value(self, start: str, tensor: OwnedTensor, random: Tensor) -> Tensor:
        if start == "average":
            others = [self.model.task_id(name) for name in self.others]
            return torch.stack([tensor.of_task[task] for task in others]).mean(0)
        if start == "xavier" and tensor.vector:
            bound = math.sqrt(6 / (len(self.model.tasks) + random.numel()))
            draws = generator(self.model.seed, task_owner(self.name), "xavier", tensor.name)
            return torch.empty(random.shape).uniform_(-bound, bound, generator=draws)
        if start in ("random", "xavier"):
            return random
        return tensor.of_task[self.model.task_id(start)]

    def check(self, start: str, mapped: bool) -> None:
        """Refuse a start that has no effect with the method.

        Args:
            start: as in `take`, or `auto`.
            mapped: whether a label map sets the head to that of the start task.
        """
        if self.tensors or start == "random" or mapped:
            return
        raise WeftError(
            f"grow.start: {start!r}, but method {self.model.method.name!r} gives a task no parameters "
            "except its head: a start has no effect; expected random, or a task with a label_map, whose "
            "head is "
            "copied"
        )


def _owned_tensors(model: Model, new: int) -> Iterator[OwnedTensor]:
    owner = task_owner(model.tasks[new].name)
    if model.method.separate:
        encoders: Any = model.encoder
        of_task = [dict(encoders[task_owner(task.name)].named_parameters()) for task in model.tasks]
        for name in of_task[new]:
            yield OwnedTensor(name, tuple(parameters[name].detach() for parameters in of_task), False)
    embedding = {
        id(module)
        for _, adapter in model.placements
        if model.method.parts[adapter.part].embeds
        for module in adapter.modules()
    }
    for path, module in model.adapters.named_modules():
        for name, stack in module.stacks.items() if isinstance(module, StackedModule) else ():
            if stack.slots.owners[stack.slots.of_task[new]] == owner:
                values = module.get_parameter(name).detach()
                vector = id(module) in embedding and values.dim() == 2
                yield OwnedTensor(
                    f"{path}.{name}", tuple(values[slot] for slot in stack.slots.of_task), vector
                )
