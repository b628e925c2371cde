"""Where what is a new task's own begins: at another task's, at the mean of all, or at a draw."""

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
class Place:
    """One tensor that the new task has of its own, outside its head.

    Attributes:
        name: the parameter's, for its draws.
        of_task: what each task has in this place, by id, as views; of a group's member the group's.
        vector: whether it is the vector that the task is to the method.
    """

    name: str
    of_task: tuple[Tensor, ...]
    vector: bool


class Beginnings:
    """The beginnings that a new task may have.

    Args:
        model: the model, the new task at the method's own start.
        name: the new task.

    Attributes:
        places: what it has of its own.
        others: the other tasks.
    """

    def __init__(self, model: Model, name: str) -> None:
        self.model, self.name, self.new = model, name, model.task_id(name)
        self.others = [task.name for task in model.tasks if task.name != name]
        self.places = list(_places(model, self.new))
        self._random = [place.of_task[self.new].clone() for place in self.places]

    @property
    def embeds(self) -> bool:
        """Whether the task is a vector to the method."""
        return any(place.vector for place in self.places)

    def candidates(self) -> list[str]:
        """All of them: every other task's, their mean, the method's start and, for a vector, Xavier's."""
        named = [name for name in self.others if name not in STARTS]  # a task may have the name of a start
        mean = ["average"] if self.places else []
        return [*named, *mean, "random", *(["xavier"] if self.embeds else [])]

    @torch.no_grad()
    def take(self, start: str) -> None:
        """Begin there.

        Args:
            start: a task's name; `average`; `random`, the method's own start; or `xavier`, of vectors
                [d] the uniform draw in ±√(6/(T + d)), T counting the new task too.
        """
        for place, random in zip(self.places, self._random, strict=True):
            place.of_task[self.new].copy_(self._value(start, place, random))

    def _value(self, start: str, place: Place, random: Tensor) -> Tensor:
        if start == "average":
            others = [self.model.task_id(name) for name in self.others]
            return torch.stack([place.of_task[task] for task in others]).mean(0)
        if start == "xavier" and place.vector:
            bound = math.sqrt(6 / (len(self.model.tasks) + random.numel()))
            draws = generator(self.model.seed, task_owner(self.name), "xavier", place.name)
            return torch.empty(random.shape).uniform_(-bound, bound, generator=draws)
        if start in ("random", "xavier"):
            return random
        return place.of_task[self.model.task_id(start)]

    def check(self, start: str, mapped: bool) -> None:
        """Refuse a start that means nothing to the method.

        Args:
            start: as in `take`, or `auto`.
            mapped: whether a label map says that the head begins at that task's.
        """
        if self.places or start == "random" or mapped:
            return
        raise WeftError(
            f"grow.start: {start!r}, but method {self.model.method.name!r} gives a task nothing of its own "
            "but its head: there is nothing to begin with; expected random, or a task with a label_map, "
            "whose head is taken"
        )


def _places(model: Model, new: int) -> Iterator[Place]:
    mine = task_owner(model.tasks[new].name)
    if model.method.separate:
        encoders: Any = model.encoder
        of_task = [dict(encoders[task_owner(task.name)].named_parameters()) for task in model.tasks]
        for name in of_task[new]:
            yield Place(name, tuple(parameters[name].data for parameters in of_task), False)
    embedding = {
        id(module)
        for _, adapter in model.placements
        if model.method.parts[adapter.part].embeds
        for module in adapter.modules()
    }
    for path, module in model.adapters.named_modules():
        for name, stack in module.stacks.items() if isinstance(module, StackedModule) else ():
            if stack.slots.owners[stack.slots.of_task[new]] == mine:
                values = module.get_parameter(name).data
                vector = id(module) in embedding and values.dim() == 2
                yield Place(f"{path}.{name}", tuple(values[slot] for slot in stack.slots.of_task), vector)
