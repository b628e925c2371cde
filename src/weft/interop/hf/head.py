"""A task's head as plain tensors: the layers before the last one, and the last one with every scale in it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from torch import Tensor, nn

from weft.encoder.anatomy import anatomy_of, path_of
from weft.interop.refusals import CannotExport
from weft.model.pooling import TASK_POOLER, base_pool
from weft.tasks.kinds import KINDS

if TYPE_CHECKING:
    from weft.model.heads import Head
    from weft.model.model import Model
    from weft.tasks.task import Task

TOKENS = "tokens"

_NOT_ONE_VECTOR = {
    "pair": "it encodes its two texts separately, and its head reads both vectors; a class of transformers "
    "encodes a pair as one row",
    "cosine": "its answer is the cosine of two texts that are encoded separately, and no class of "
    "transformers computes it; --to sentence-transformers has a place for it",
    "marked": "its head reads the marked words of a text, and no class of transformers has an input for them",
}


@dataclass(frozen=True, eq=False)
class Layer:
    """One layer: activation(weight·x + bias).

    Attributes:
        weight: [o, i].
        bias: [o].
        activation: `tanh`, `relu` or `linear`.
    """

    weight: Tensor
    bias: Tensor
    activation: str = "linear"


@dataclass(frozen=True, eq=False)
class TaskHead:
    """What a task computes from the last hidden states.

    Attributes:
        pool: `cls`, `mean`, or `tokens`: every token.
        hidden: the layers before the last one; a pooler is one of them.
        last: the last one, [C, d'], which also has the scale of a task with a range and the temperature.
    """

    pool: str
    hidden: tuple[Layer, ...]
    last: Layer


def scale_of(task: Task) -> tuple[float, float]:
    """The factor and the term that make answers of a head's outputs: factor·x + term.

    With a range that is (high − low) and low; with a temperature 1 / temperature and 0.
    """
    if KINDS[task.kind].has_range:
        low, high = task.scale
        return high - low, low
    return (1.0 if task.temperature is None else 1 / task.temperature), 0.0


def task_head(model: Model, task: Task, encoder: nn.Module) -> TaskHead:
    """Return the head of a task, on the CPU.

    Args:
        model: the model.
        task: one of its tasks.
        encoder: its encoder, merged, with the pooler that the head may read.

    Raises:
        CannotExport: its head reads more than one vector per row or token.
    """
    head: Head = model.heads[task.head]  # type: ignore[assignment]
    if head.reads in _NOT_ONE_VECTOR:
        raise CannotExport(_NOT_ONE_VECTOR[head.reads])
    pool, hidden = pooling_of(model, task, encoder)
    if head.reads == TOKENS:
        pool, hidden = TOKENS, []
    for number in range(head.layers - 1):
        hidden.append(_layer(model, task, f"hidden_{number}", f"hidden_bias_{number}", "relu"))
    last = _layer(model, task, "weight", "bias")
    factor, term = scale_of(task)
    return TaskHead(pool, tuple(hidden), Layer(last.weight * factor, last.bias * factor + term))


def pooling_of(model: Model, task: Task, encoder: nn.Module) -> tuple[str, list[Layer]]:
    """Return how `model.embed` pools for a task: `cls` or `mean`, and the pooler as a layer, if there is one.

    The arguments are those of `task_head`.
    """
    head: Head = model.heads[task.head]  # type: ignore[assignment]
    if head.pool == "pooler":
        path = path_of(anatomy_of(encoder), "pooler")
        assert path is not None, "the model has checked that there is a pooler"
        pooler: Any = encoder.get_submodule(path)
        return "cls", [Layer(_plain(pooler.weight), _plain(pooler.bias), "tanh")]
    if head.pool == TASK_POOLER and "pooler" in head.stacks:
        return "cls", [_layer(model, task, "pooler", "pooler_bias", "tanh")]
    return base_pool(head.pool), []


def _layer(model: Model, task: Task, weight: str, bias: str, activation: str = "linear") -> Layer:
    head: Any = model.heads[task.head]
    slot = head.stacks[weight].slots.of_task[model.task_id(task.name)]
    return Layer(_plain(head.get_parameter(weight)[slot]), _plain(head.get_parameter(bias)[slot]), activation)


def _plain(tensor: Tensor) -> Tensor:
    return tensor.detach().cpu().float().clone()
