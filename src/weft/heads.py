"""Heads, stacked per shape: the loop is over shapes, never over tasks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from weft.errors import WeftError
from weft.routing import Route, Slots, StackedModule, row_linear, task_owner
from weft.tasks.task import Task

if TYPE_CHECKING:
    from weft.encoder.load import Encoder


class Head(StackedModule):
    """The linear heads of all tasks of one shape: logits = W_t·dropout(pooled) + b_t.

    W [S, C, d] starts N(0, 0.02²), b [S, C] at zero. Rows of tasks of another shape go through slot 0; their
    answers are never read, and their loss has weight 0.

    Args:
        shape: the shape's name.
        tasks: all tasks of the model, in the order of their ids.
        width: d.
        dropout: on the pooled vector, in training.
        seed: of W's start.
    """

    def __init__(self, shape: str, tasks: Sequence[Task], width: int, dropout: float, seed: int) -> None:
        super().__init__()
        mine = [task.name for task in tasks if task.head == shape]
        self.size = next(task.size or 0 for task in tasks if task.head == shape)
        slots = Slots(
            tuple(task_owner(name) for name in mine),
            tuple(mine.index(task.name) if task.head == shape else 0 for task in tasks),
        )
        self.dropout = dropout
        self.stack("weight", (self.size, width), slots, "weight")
        self.stack("bias", (self.size,), slots, "bias")
        # the place is the same for every shape: a task's head starts equally in any company
        self.start("weight", lambda t, g: t.normal_(0.0, 0.02, generator=g), seed, "head")
        nn.init.zeros_(self.get_parameter("bias"))

    def forward(self, pooled: Tensor, route: Route) -> Tensor:
        """Pooled [R, d] → logits [R, C]."""
        x = F.dropout(pooled, self.dropout, self.training)
        logits = row_linear(x[:, None], self.take("weight", route))[:, 0]
        return logits + self.take("bias", route)


def head_input(pool: str, hidden: Tensor, pooled: Tensor, mask: Tensor | None) -> Tensor:
    """What the heads read, [R, d].

    Args:
        pool: `pooler`, `cls` or `mean` (Σ mask·hidden / Σ mask).
        hidden: [R, L, d].
        pooled: the encoder's own, [R, d].
        mask: true at tokens, [R, L]; None if nothing is padded.
    """
    if pool == "pooler":
        return pooled
    if pool == "cls":
        return hidden[:, 0]
    if mask is None:
        return hidden.mean(1)
    share = mask.to(hidden.dtype) / mask.sum(1, keepdim=True).clamp(min=1)
    return torch.einsum("rl,rld->rd", share, hidden)


def build_heads(tasks: Sequence[Task], width: int, dropout: float, seed: int) -> nn.ModuleDict:
    """A `Head` for each shape that the tasks have, keyed by the shape's name."""
    shapes = dict.fromkeys(task.head for task in tasks)
    return nn.ModuleDict({shape: Head(shape, tasks, width, dropout, seed) for shape in shapes})


def pool_of(pool: str, encoder: Encoder) -> str:
    """What the setting `pool` means for this encoder: `pooler`, `cls` or `mean`."""
    has_pooler = getattr(encoder.model, "pooler", None) is not None
    if pool == "auto":
        pool = encoder.pooling or "pooler"
        return pool if has_pooler or pool != "pooler" else "cls"
    if pool == "pooler" and not has_pooler:
        raise WeftError(f"pool: encoder {encoder.name!r} has no pooler; expected cls or mean")
    return pool
