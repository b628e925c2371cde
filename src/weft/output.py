"""What a forward pass gives."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor


@dataclass
class Output:
    """What a forward pass gives for R rows of length L and E examples.

    Attributes:
        hidden: the last hidden states, after `top`, [R, L, d].
        pooled: the encoder's pooler on `hidden`, else hidden[:, 0]; [R, d].
        layers: the embeddings and every block's output, each [R, L, d], where asked for; the last one is
            `hidden` where an adapter sits at `top`.
        by_shape: the logits [E, C] of every head shape; an example's own is that of its task.
        task: the task id of each example, [E].
        heads: the head shape of each task.
        attention: the probabilities [R, heads, L, L] of the adapters' own attentions, where asked for; by
            site (`3/ffn_delta`), or `top/0` and so on for those on top.
    """

    hidden: Tensor
    pooled: Tensor
    layers: tuple[Tensor, ...] | None
    by_shape: dict[str, Tensor]
    task: Tensor
    heads: tuple[str, ...]
    attention: dict[str, Tensor] | None = None

    @property
    def logits(self) -> list[Tensor]:
        """The logits of each example, [C] of its own task's size; reads the task ids back to the host."""
        return [self.by_shape[self.heads[t]][e] for e, t in enumerate(self.task.tolist())]


def mean_by_example(x: Tensor, example: Tensor, count: int) -> Tensor:
    """The mean over each example's rows, [R, C] → [E, C]."""
    total = x.new_zeros(count, x.size(-1)).index_add(0, example, x)
    rows = x.new_zeros(count).index_add(0, example, x.new_ones(x.size(0)))
    return total / rows[:, None]
