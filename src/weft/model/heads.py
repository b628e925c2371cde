"""Heads, stacked by shape: loops are over shapes, never over tasks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from weft.core.route import Route
from weft.core.stacked import Slots, StackedModule, task_owner
from weft.errors import WeftError
from weft.kernels.dropout import dropped
from weft.model.pooling import TASK_POOLER, Reads, base_pool, width_of
from weft.tasks.kinds import KINDS
from weft.tasks.task import Task
from weft.utils.seeding import generator

if TYPE_CHECKING:
    from weft.encoder.load import Encoder


class Head(StackedModule):
    """The heads of all tasks of one shape.

    x = dropout(the shape's input), then for every layer but the last x = dropout(relu(H_t·x + h_t)), and
    logits = W_t·x + b_t. With `task_pooler` the input is first mapped by tanh(P_t·x + p_t).

    W [S, C, d'] starts at N(0, 0.02²) and b [S, C] at zero, like H [S, h, d'] and h. Rows of tasks with a
    different shape use slot 0; their logits are never read, and their loss has weight 0.

    Args:
        shape: the shape's name.
        tasks: all tasks of the model, in the order of their ids.
        width: d, the encoder's width.
        dropout: dropout probability of the input and between layers, in training.
        seed: the random seed of the initial values.
        pool: what heads read of a row, if the task does not set it.
        pooler: the encoder's pooler, whose weights the tasks' poolers start at; None: they start at random.
        start: `zero` sets W to zero; `random` and `probe` draw it, and with `probe` training fits it to the
            data before the first step (`weft.training.head_start`).

    Attributes:
        reads: the shape's input, which determines its logits: `pooled`, `pair` and `marked` give [R, C],
            `tokens` [R, L, C], and `cosine` is the result itself, [R, 1], without parameters.
    """

    def __init__(
        self,
        shape: str,
        tasks: Sequence[Task],
        width: int,
        dropout: float,
        seed: int,
        pool: str = "cls",
        pooler: nn.Module | None = None,
        start: str = "random",
    ) -> None:
        super().__init__()
        self._seed, self._zero = seed, start == "zero"
        names = [task.name for task in tasks if task.head == shape]
        example_task = next(task for task in tasks if task.head == shape)
        self.size = example_task.size or 0
        self.reads = KINDS[example_task.kind]().reads_of(example_task)
        self.pool = example_task.pool or pool
        self.dropout = dropout
        self.layers = example_task.layers or 1
        if self.reads == "cosine":
            return
        slots = Slots(
            tuple(task_owner(name) for name in names),
            tuple(names.index(task.name) if task.head == shape else 0 for task in tasks),
        )
        if self.pool == TASK_POOLER and self.reads != "tokens":
            self._stack_pooler(slots, width, seed, pooler)
        size = width_of(self.reads, width)
        # the place is the same for every shape: a task's initial head does not depend on the other tasks
        for number in range(self.layers - 1):
            hidden = example_task.hidden or width
            self._stack_layer(f"hidden_{number}", f"hidden_bias_{number}", (hidden, size), slots, seed)
            size = hidden
        self._stack_layer("weight", "bias", (self.size, size), slots, seed)
        if self._zero and not self.get_parameter("weight").is_meta:
            nn.init.zeros_(self.get_parameter("weight"))

    def _stack_layer(self, weight: str, bias: str, shape: tuple[int, int], slots: Slots, seed: int) -> None:
        self.stack(weight, shape, slots, "weight")
        self.stack(bias, shape[:1], slots, "bias")
        self.start(weight, _draw, seed, "head")
        nn.init.zeros_(self.get_parameter(bias))

    def _stack_pooler(self, slots: Slots, width: int, seed: int, pooler: nn.Module | None) -> None:
        self._stack_layer("pooler", "pooler_bias", (width, width), slots, seed)
        dense = getattr(pooler, "dense", None)
        if isinstance(dense, nn.Linear) and dense.weight.shape == (width, width):
            for name, value in (("pooler", dense.weight), ("pooler_bias", dense.bias)):
                if not self.get_parameter(name).is_meta:
                    self.get_parameter(name).data.copy_(value.data.expand_as(self.get_parameter(name)))

    def is_untrained(self, task: int) -> bool:
        """Whether the last layer of a task has its initial values, bit for bit."""
        if self.reads == "cosine":
            return False
        slots = self.stacks["weight"].slots
        slot = slots.of_task[task]
        weight = self.get_parameter("weight")[slot].detach().cpu()
        expected = torch.zeros_like(weight)
        if not self._zero:
            _draw(expected, generator(self._seed, slots.owners[slot], "head", "weight"))
        return torch.equal(weight, expected) and not self.get_parameter("bias")[slot].any()

    def forward(self, reads: Reads, route: Route) -> Tensor:
        """The logits of every row, [R, C], or of every token, [R, L, C]."""
        if self.reads == "cosine":
            return reads.cosine(self.pool)
        logits = self._mapped(self.inputs(reads, route), route)
        return logits if self.reads == "tokens" else logits[:, 0]

    def inputs(self, reads: Reads, route: Route) -> Tensor:
        """The input of the first layer: every token, [R, L, d], or one vector per row, [R, 1, d']."""
        if self.reads == "tokens":
            return reads.hidden
        return reads.joined(self.reads, self.vectors(reads, route))[:, None]

    def vectors(self, reads: Reads, route: Route) -> Tensor:
        """One vector per row, [R, d]: pooled, and mapped by the task's pooler if it has one."""
        x = reads.pooled(base_pool(self.pool))
        if "pooler" in self.stacks:
            x = torch.tanh(self.mapped(x[:, None], "pooler", route, "pooler_bias"))[:, 0]
        return x

    def _mapped(self, x: Tensor, route: Route) -> Tensor:
        """Apply the layers, [R, n, d'] → [R, n, C]."""
        x = dropped(x, self.dropout, self)
        for number in range(self.layers - 1):
            x = F.relu(self.mapped(x, f"hidden_{number}", route, f"hidden_bias_{number}"))
            x = dropped(x, self.dropout, self, number + 1)
        logits = self.mapped(x, "weight", route)
        return logits + self.take("bias", route)[:, None]


def _draw(value: Tensor, source: torch.Generator) -> Tensor:
    """Draw initial values from N(0, 0.02²)."""
    return value.normal_(0.0, 0.02, generator=source)


def build_heads(
    tasks: Sequence[Task],
    width: int,
    dropout: float,
    seed: int,
    pool: str = "cls",
    pooler: nn.Module | None = None,
    start: str = "random",
) -> nn.ModuleDict:
    """Return one `Head` per shape of the tasks, keyed by the shape's name."""
    shapes = dict.fromkeys(task.head for task in tasks)
    return nn.ModuleDict(
        {shape: Head(shape, tasks, width, dropout, seed, pool, pooler, start) for shape in shapes}
    )


def pool_of(pool: str, encoder: Encoder) -> str:
    """Resolve the setting `pool` for this encoder to `pooler`, `cls`, `mean` or `task_pooler`."""
    has_pooler = getattr(encoder.model, "pooler", None) is not None
    if pool == "auto":
        pool = encoder.pooling or "pooler"
        return pool if has_pooler or pool != "pooler" else "cls"
    if pool == "pooler" and not has_pooler:
        raise WeftError(f"pool: encoder {encoder.name!r} has no pooler; expected cls, mean or task_pooler")
    return pool
