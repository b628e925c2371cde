"""The result of a forward pass."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from weft.core.layout import Layout
from weft.kernels.dispatch import select


@dataclass(repr=False)
class Output:
    """The result of a forward pass for R rows of length L and E examples.

    Attributes:
        hidden: the last hidden states, after `top`, [R, L, d].
        pooled: the encoder's pooler on `hidden`, else hidden[:, 0]; [R, d].
        layers: the embeddings and every block's output, each [R, L, d], if requested; the last one is
            `hidden` if there is an adapter at `top`.
        by_shape: the logits of every head shape, of which an example uses that of its task. [E, C] for kinds
            with logits per example, [R, C] for kinds with logits per row, [R, L, C] per token.
        task: the task id of each example, [E].
        heads: the head shape of each task.
        layout: which example each row belongs to.
        answers_by: for each shape, whether its logits are by `example`, `row` or `token`.
        attention: the attention probabilities [R, heads, L, L] of the adapters, if requested; by site
            (`3/ffn_delta`), or `top/0` and so on for those on top.
        shape_of_task: the index of each task's shape in `by_shape`, [T], if it is known.
    """

    hidden: Tensor
    pooled: Tensor
    layers: tuple[Tensor, ...] | None
    by_shape: dict[str, Tensor]
    task: Tensor
    heads: tuple[str, ...]
    layout: Layout
    answers_by: dict[str, str]
    attention: dict[str, Tensor] | None = None
    shape_of_task: Tensor | None = None

    def __repr__(self) -> str:
        """Show shapes, not numbers."""
        logits = ", ".join(f"{shape} {list(x.shape)}" for shape, x in self.by_shape.items())
        shown = [f"hidden={list(self.hidden.shape)}", f"pooled={list(self.pooled.shape)}"]
        shown += [f"by_shape={{{logits}}}"]
        shown += [f"layers={len(self.layers)}"] if self.layers is not None else []
        shown += [f"attention={list(self.attention)}"] if self.attention is not None else []
        return f"Output({len(self.hidden)} rows, {self.layout.count} examples: {', '.join(shown)})"

    @property
    def last_hidden_state(self) -> Tensor:
        """`hidden` under its name in Hugging Face's outputs, [R, L, d]."""
        return self.hidden

    @property
    def pooler_output(self) -> Tensor:
        """`pooled` under its name in Hugging Face's outputs, [R, d]; hidden[:, 0] without a pooler."""
        return self.pooled

    @property
    def logits(self) -> list[Tensor]:
        """The logits of each example; reads the task ids back to the host.

        [C] with the size of its task; for `choose` and `rank` the scores of its rows, [rows]; for `span` and
        `tag` the logits of all its tokens, row after row, [tokens, C].
        """
        tasks = self.task.tolist()
        rows = self._rows()
        return [self._example_logits(self.heads[t], e, rows[e]) for e, t in enumerate(tasks)]

    def of_own_shape(self, values: Mapping[str, Tensor], rest: float = 0.0) -> Tensor:
        """Select for each example the value of its task's head shape, [E].

        Args:
            values: one value per example for each shape, each [E]; an example reads that of its shape only.
            rest: the value of examples whose shape is missing.
        """
        shapes = list(self.by_shape)
        of_task = self.shape_of_task
        if of_task is None:
            of_task = torch.tensor([shapes.index(head) for head in self.heads], device=self.task.device)
        shape = select(of_task, self.task)  # [E]
        selected = torch.full(self.task.shape, rest, device=self.task.device)
        for number, name in enumerate(shapes):
            if name in values:
                selected = torch.where(shape == number, values[name], selected)
        return selected

    def on_host(self) -> Output:
        """Return a copy with float32 logits, task ids and layout on the CPU, with one transfer per tensor."""
        layout = Layout(_on_host(self.layout.example), self.layout.count, _on_host(self.layout.mask))
        by_shape = {shape: x.float().cpu() for shape, x in self.by_shape.items()}
        return replace(self, by_shape=by_shape, task=self.task.cpu(), layout=layout)

    def _rows(self) -> list[list[int]]:
        """The rows of each example, in their order."""
        if self.layout.example is None:
            return [[e] for e in range(self.layout.count)]
        rows: list[list[int]] = [[] for _ in range(self.layout.count)]
        for row, example in enumerate(self.layout.example.tolist()):
            rows[example].append(row)
        return rows

    def _example_logits(self, shape: str, example: int, rows: Sequence[int]) -> Tensor:
        logits, by = self.by_shape[shape], self.answers_by[shape]
        if by == "example":
            return logits[example]
        if by == "row":
            return logits[list(rows), 0]
        mask = self.layout.mask
        return torch.cat([logits[r] if mask is None else logits[r][mask[r]] for r in rows])


def _on_host(x: Tensor | None) -> Tensor | None:
    return None if x is None else x.cpu()
