"""`rank`: a ranking of the candidates for a query."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from weft.errors import WeftError, did_you_mean
from weft.tasks.kinds.candidates import Candidates
from weft.tasks.kinds.kind import Inputs, Kind
from weft.tasks.values import listed, number_of, whole

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from torch import Tensor

    from weft.core.layout import Layout
    from weft.data.readers.example import ExampleRows
    from weft.tasks.task import Task

LOSSES = ("softmax", "pairwise")


class Rank(Candidates):
    """One row and one score per candidate; a label is the relevance of each candidate, 0 or more.

    `softmax`: ℓ = −Σ_i q_i·log softmax(s)_i with q = relevance / Σ relevance. `pairwise`: ℓ = the mean over
    the pairs with relevance_i > relevance_j of log(1 + exp(s_j − s_i)). The softmax loss of a query without a
    relevant candidate is 0, and so is the pairwise loss of a query whose relevances are all equal.
    """

    name = "rank"
    pipeline_tag = "text-ranking"
    answer_types = ("rankings",)
    options = ("choices", "rank_loss")
    least = 1

    def complete(self, task: Task) -> None:
        """Set `rank_loss` to its default, `softmax`."""
        super().complete(task)
        task._set("rank_loss", task.rank_loss or LOSSES[0])
        if task.rank_loss not in LOSSES:
            raise WeftError(
                f"task {task.name!r}: rank_loss {task.rank_loss!r}; "
                f"{did_you_mean(str(task.rank_loss), LOSSES)}"
            )

    def of(self, task: Task) -> Kind:
        """Return the kind with the task's `rank_loss`."""
        return RankPairwise() if task.rank_loss == "pairwise" else self

    def parse(self, values: Sequence[object], labels: Sequence[str]) -> tuple[float, ...] | int:
        """Return the relevance of each candidate, or the index of the only relevant one."""
        items = list(values) if len(values) > 1 else listed(values[0])
        if items is None:
            index = whole(values[0])
            if index is None or index < 0:
                raise ValueError("a list of numbers, one per candidate, or the index of the relevant one")
            return index
        numbers = [number_of(item) if not isinstance(item, bool) else float(item) for item in items]
        if any(number is None or number < 0 for number in numbers):
            raise ValueError("a list of numbers of 0 or more, one per candidate")
        return tuple(number for number in numbers if number is not None)

    def fits(self, label: Any, task: Task, inputs: Inputs) -> None:
        """Accept as many numbers as candidates, or the index of one."""
        candidates = len(inputs.texts) - len(task.texts)
        if isinstance(label, int):
            if label >= candidates:
                raise ValueError(f"the index of a candidate, from 0 to {candidates - 1}")
        elif len(label) != candidates:
            raise ValueError(f"{candidates} numbers, one per candidate; there are {len(label)}")

    def target(self, label: Any, task: Task, example: ExampleRows) -> list[float]:
        """The relevance of each row."""
        return relevance(label, example.count)

    def check(self, value: Any, size: int) -> None:
        """Accept one number per row."""
        numbers: Any = value if isinstance(value, list | tuple) and value else [None]
        if not all(type(x) in (int, float) and 0 <= x < math.inf for x in numbers):
            raise ValueError("a list of numbers of 0 or more, one per row of the example")

    def loss(self, logits: Tensor, labels: Tensor, layout: Layout) -> Tensor:
        """The softmax loss, [E]."""
        scores = logits.float()[:, 0]
        total = layout.sum(labels)
        target = labels / layout.of_rows(total).clamp(min=1e-9)
        negative_log_softmax = layout.of_rows(layout.log_sum_exp(scores)) - scores
        return layout.sum(target * negative_log_softmax)

    def decode(
        self, logits: Sequence[NDArray[np.float32]], task: Task, examples: Sequence[ExampleRows]
    ) -> list[list[float]]:
        """The scores of the candidates."""
        return [[float(score) for score in x] for x in logits]

    def gold(self, labels: Sequence[Any], task: Task, examples: Sequence[ExampleRows]) -> list[list[float]]:
        """The relevances of the candidates."""
        sizes = [len(example.texts) - len(task.texts) for example in examples]
        return [relevance(label, size) for label, size in zip(labels, sizes, strict=True)]

    def guess(self, labels: Sequence[Any], task: Task, examples: Sequence[ExampleRows]) -> list[list[float]]:
        """The candidates in the order of the data."""
        sizes = [len(example.texts) - len(task.texts) for example in examples]
        return [[float(-number) for number in range(size)] for size in sizes]

    def label_facts(self, labels: Sequence[Any], task: Task) -> dict[str, float]:
        """The mean number of relevant candidates, and the number of queries without one."""
        relevant = [1 if isinstance(label, int) else sum(x > 0 for x in label) for label in labels]
        return {
            "relevant a query": sum(relevant) / len(relevant),
            "queries without one": sum(count == 0 for count in relevant),
        }

    def example_answer(self, task: Task) -> dict[str, Any]:
        """A number and a score per candidate."""
        return {"order": [0], "scores": [0.0]}

    def answer(self, logits: NDArray[np.float32], task: Task, example: ExampleRows) -> dict[str, Any]:
        """The indices of the candidates, best first, and their scores in the order of the data."""
        order = [int(i) for i in (-logits).argsort(kind="stable")]
        return {"order": order, "scores": [float(score) for score in logits]}


class RankPairwise(Rank):
    """`rank` with the pairwise loss: a separate head shape, because every shape has one loss."""

    def loss(self, logits: Tensor, labels: Tensor, layout: Layout) -> Tensor:
        """The mean over pairs with relevance_i > relevance_j of log(1 + exp(s_j − s_i)), [E]."""
        import torch
        from torch.nn import functional as F

        scores = logits.float()[:, 0]
        rows = torch.arange(len(scores), device=scores.device)
        example = rows if layout.example is None else layout.example
        above = (labels[:, None] > labels[None, :]) & (example[:, None] == example[None, :])  # [R, R]
        losses = torch.where(above, F.softplus(scores[None, :] - scores[:, None]), 0.0)
        pairs = layout.sum(above.float().sum(1))
        return layout.sum(losses.sum(1)) / pairs.clamp(min=1)

    def uncertainty(
        self, logits: Tensor, layout: Layout, measure: str, labels: Tensor | None = None
    ) -> Tensor:
        """The mean over pairs of candidates of the uncertainty of σ(s_i − s_j) against 1 − σ, [E]."""
        from weft.tasks.kinds.uncertainty import of_pairs

        return of_pairs(logits[:, 0], layout, measure)


def relevance(label: Any, candidates: int) -> list[float]:
    """Return the relevance of each candidate; a label may hold all, or the index of the relevant one."""
    if isinstance(label, int):
        return [float(number == label) for number in range(candidates)]
    return [float(x) for x in label]
