"""`regress`: one number or several."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from weft.errors import WeftError
from weft.tasks.kinds.kind import Kind

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from torch import Tensor

    from weft.core.layout import Layout
    from weft.data.readers.example import ExampleRows
    from weft.tasks.kinds.kind import Inputs
    from weft.tasks.task import Task


class Regress(Kind):
    """Squared error over k outputs; a label is a number or a list of k numbers."""

    name = "regress"
    pipeline_tag = "text-classification"
    has_range = True
    bag_of_words = "ridge"
    squared = True
    answer_types = ("numbers",)
    probe = "numbers"
    options: ClassVar[tuple[str, ...]] = ("apart", "targets")

    def size(self, task: str, labels: Sequence[str], size: int | None) -> int:
        """K, by default 1."""
        if labels:
            raise WeftError(f"task {task!r}: {self.name} has no labels; found {list(labels)}")
        if size is not None and size < 1:
            raise WeftError(f"task {task!r}: {self.name} needs one output or more; found size {size}")
        return size or 1

    def parse(self, values: Sequence[object], labels: Sequence[str]) -> float | list[float]:
        """Return a number, or a list with one number per output."""
        if len(values) == 1 and isinstance(values[0], list | tuple):
            values = values[0]  # one column that holds lists
        try:
            numbers = [float(value) for value in values]  # type: ignore[arg-type]
        except (TypeError, ValueError):
            raise ValueError("a number") from None
        if not all(map(math.isfinite, numbers)):
            raise ValueError("a finite number")
        return numbers[0] if len(numbers) == 1 else numbers

    def fits(self, label: Any, task: Task, inputs: Inputs) -> None:
        """Accept as many numbers as there are outputs, inside the task's range."""
        super().fits(label, task, inputs)
        if task.range is None:
            return
        low, high = task.range
        numbers = label if isinstance(label, list) else [label]
        if not all(low <= number <= high for number in numbers):
            raise ValueError(f"a number from {low:g} to {high:g}, the task's range")

    def check(self, value: Any, size: int) -> None:
        """Accept a number, or a list with one number per output."""
        numbers = value if isinstance(value, list | tuple) else [value]
        if len(numbers) != size or not all(isinstance(x, int | float) and math.isfinite(x) for x in numbers):
            raise ValueError("a finite number" if size == 1 else f"a list of {size} finite numbers")

    def target_shape(self, size: int) -> tuple[int, ...]:
        """One number per output."""
        return (size,)

    def least_size(self, value: Any) -> int:
        """The number of numbers."""
        return len(value) if isinstance(value, list | tuple) else 1

    def as_array(self, value: Any, size: int) -> NDArray[Any]:
        """The numbers, filled up with zeros for a task with fewer, [size]."""
        import numpy as np

        target = np.zeros(size, self.target_type)
        target[: self.least_size(value)] = value
        return target

    def table(self, labels: Sequence[Any], task: Task) -> NDArray[Any] | None:
        """The numbers, scaled by the task's range, [n, k]."""
        import numpy as np

        try:
            numbers = np.asarray(labels)
        except (TypeError, ValueError):
            return None
        if numbers.dtype.kind not in "biuf":  # a text such as "1.5" is not a number
            return None
        numbers = numbers.astype(np.float64)
        numbers = numbers[:, None] if numbers.ndim == 1 else numbers
        if numbers.ndim != 2 or numbers.shape[1] != task.size or not np.isfinite(numbers).all():
            return None
        low, high = task.scale
        return ((numbers - low) / (high - low)).astype(self.target_type)

    def decode(
        self, logits: Sequence[NDArray[np.float32]], task: Task, examples: Sequence[ExampleRows]
    ) -> NDArray[Any]:
        """The numbers, [N], or [N, k] for several outputs."""
        import numpy as np

        numbers = task.in_range(np.asarray(logits))
        return numbers[:, 0] if numbers.shape[1] == 1 else numbers

    def guess(self, labels: Sequence[Any], task: Task, examples: Sequence[ExampleRows]) -> NDArray[Any]:
        """The mean, [N] or [N, k]."""
        import numpy as np

        mean = np.asarray(labels, float).mean(0)
        return np.broadcast_to(mean, (len(examples), *mean.shape))

    def label_facts(self, labels: Sequence[Any], task: Task) -> dict[str, float]:
        """Minimum, mean and maximum."""
        numbers = [x for label in labels for x in (label if isinstance(label, list) else [label])]
        return {"min": min(numbers), "mean": sum(numbers) / len(numbers), "max": max(numbers)}

    def example_answer(self, task: Task) -> dict[str, Any]:
        """A number, or a list of several."""
        return {"value": 0.0 if (task.size or 1) == 1 else [0.0]}

    def answer(self, logits: NDArray[np.float32], task: Task, example: ExampleRows) -> dict[str, Any]:
        """The number, or a list of several numbers."""
        numbers = [float(x) for x in task.in_range(logits)]
        return {"value": numbers[0] if len(numbers) == 1 else numbers}

    def loss(self, logits: Tensor, labels: Tensor, layout: Layout) -> Tensor:
        """The mean over the outputs of (output − target)², [E]."""
        from torch.nn import functional as F

        size = logits.size(-1)
        targets = F.pad(labels, (0, max(0, size - labels.size(-1))))[:, :size]
        return (logits.float() - targets).square().mean(-1)
