"""`classify`: one of C labels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from weft.errors import WeftError
from weft.tasks.kinds.kind import Kind

if TYPE_CHECKING:
    from torch import Tensor


class Classify(Kind):
    """Cross-entropy over C logits; a label is its id."""

    name = "classify"

    def size(self, task: str, labels: Sequence[str], size: int | None) -> int:
        """C: the number of labels, which `size` may give without names."""
        found = len(labels) if size is None else size
        if labels and found != len(labels):
            raise WeftError(f"task {task!r}: size {size} does not fit its {len(labels)} labels")
        if found < 2:
            raise WeftError(f"task {task!r}: classify needs two labels or more; found {found}")
        return found

    def collate(self, values: Sequence[Any], of_this_kind: Sequence[bool]) -> Tensor:
        """Label ids, [E] of int64."""
        import torch

        return torch.tensor([int(v) if mine else 0 for v, mine in zip(values, of_this_kind, strict=True)])

    def loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        """−log softmax(logits)[label], [E]."""
        from torch.nn import functional as F

        # a label of a task with more classes is out of range here; its weight is 0
        return F.cross_entropy(logits.float(), labels.clamp(0, logits.size(-1) - 1), reduction="none")
