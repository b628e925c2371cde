"""`regress`: one number, or several."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from weft.errors import WeftError
from weft.tasks.kinds.kind import Kind

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from torch import Tensor


class Regress(Kind):
    """Squared error over k outputs; a label is a number or a list of k numbers."""

    name = "regress"
    has_range = True
    metrics = ("pearson", "spearman")

    def size(self, task: str, labels: Sequence[str], size: int | None) -> int:
        """K, 1 unless said otherwise."""
        if labels:
            raise WeftError(f"task {task!r}: regress has no labels; found {list(labels)}")
        if size is not None and size < 1:
            raise WeftError(f"task {task!r}: regress needs one output or more; found size {size}")
        return size or 1

    def metrics_for(self, size: int) -> tuple[str, ...]:
        """All of them, for any number of outputs."""
        return ("pearson", "spearman", "mse")

    def parse(self, values: Sequence[object], labels: Sequence[str]) -> float | list[float]:
        """A number, or one for each output."""
        if len(values) == 1 and isinstance(values[0], list | tuple):
            values = values[0]  # one column that holds lists
        try:
            numbers = [float(value) for value in values]  # type: ignore[arg-type]
        except (TypeError, ValueError):
            raise ValueError("a number") from None
        if not all(map(math.isfinite, numbers)):
            raise ValueError("a finite number")
        return numbers[0] if len(numbers) == 1 else numbers

    def check(self, value: Any, size: int) -> None:
        """A label is a number, or a list of as many as there are outputs."""
        numbers = value if isinstance(value, list | tuple) else [value]
        if len(numbers) != size or not all(isinstance(x, int | float) and math.isfinite(x) for x in numbers):
            raise ValueError("a finite number" if size == 1 else f"a list of {size} finite numbers")

    def collate(self, values: Sequence[Any], of_this_kind: Sequence[bool]) -> Tensor:
        """Targets, [E, most outputs] of float32, zero where a task has fewer."""
        import torch

        rows = [
            [float(x) for x in (v if isinstance(v, list | tuple) else [v])] if mine else []
            for v, mine in zip(values, of_this_kind, strict=True)
        ]
        width = max(map(len, rows), default=0) or 1
        return torch.tensor([row + [0.0] * (width - len(row)) for row in rows])

    def decode(self, logits: NDArray[np.float32]) -> NDArray[Any]:
        """The numbers, [N], or [N, k] of several outputs."""
        return logits[:, 0] if logits.shape[1] == 1 else logits

    def answer(self, logits: NDArray[np.float32], labels: Sequence[str]) -> dict[str, Any]:
        """The number, or the list of several."""
        numbers = [float(x) for x in logits]
        return {"value": numbers[0] if len(numbers) == 1 else numbers}

    def loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        """The mean over the outputs of (output − target)², [E]."""
        from torch.nn import functional as F

        size = logits.size(-1)
        targets = F.pad(labels, (0, max(0, size - labels.size(-1))))[:, :size]
        return (logits.float() - targets).square().mean(-1)
