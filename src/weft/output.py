"""What a forward pass gives."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from weft.errors import WeftError


@dataclass
class Output:
    """What a forward pass gives for R rows of length L and E examples.

    Attributes:
        hidden: the last hidden states, after `top`, [R, L, d].
        pooled: the encoder's pooler on `hidden`, else hidden[:, 0]; [R, d].
        layers: the embeddings and every block's output, each [R, L, d], where asked for.
        by_shape: the logits [E, C] of every head shape; an example's own is that of its task.
        task: the task id of each example, [E].
        heads: the head shape of each task.
    """

    hidden: Tensor
    pooled: Tensor
    layers: tuple[Tensor, ...] | None
    by_shape: dict[str, Tensor]
    task: Tensor
    heads: tuple[str, ...]

    @property
    def logits(self) -> list[Tensor]:
        """The logits of each example, [C] of its own task's size; reads the task ids back to the host."""
        return [self.by_shape[self.heads[t]][e] for e, t in enumerate(self.task.tolist())]


def mean_by_example(x: Tensor, example: Tensor, count: int) -> Tensor:
    """The mean over each example's rows, [R, C] → [E, C]."""
    total = x.new_zeros(count, x.size(-1)).index_add(0, example, x)
    rows = x.new_zeros(count).index_add(0, example, x.new_ones(x.size(0)))
    return total / rows[:, None]


def check_examples(example: Tensor, task: Tensor) -> None:
    """Refuse example ids [R] with a gap, or an example whose rows have different tasks [R]."""
    ids = example.tolist()
    if min(ids) < 0 or set(ids) != set(range(max(ids) + 1)):
        raise WeftError(f"example: expected ids from 0 on without a gap; found {sorted(set(ids))[:8]}")
    task_of: dict[int, int] = {}
    for one, t in zip(ids, task.tolist(), strict=True):
        if task_of.setdefault(one, t) != t:
            raise WeftError(f"example {one} has rows of the tasks {task_of[one]} and {t}; expected one task")
