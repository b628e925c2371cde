"""`classify`: one of C labels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from weft.errors import WeftError
from weft.tasks.kinds.kind import Kind

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from torch import Tensor


class Classify(Kind):
    """Cross-entropy over C logits; a label is its id."""

    name = "classify"
    metrics = ("accuracy",)

    def size(self, task: str, labels: Sequence[str], size: int | None) -> int:
        """C: the number of labels, which `size` may give without names."""
        found = len(labels) if size is None else size
        if labels and found != len(labels):
            raise WeftError(f"task {task!r}: size {size} does not fit its {len(labels)} labels")
        if found < 2:
            raise WeftError(f"task {task!r}: classify needs two labels or more; found {found}")
        return found

    def metrics_for(self, size: int) -> tuple[str, ...]:
        """F1 is of one label against the other, so it needs two."""
        return ("accuracy", "macro_f1", "matthews", *(("f1",) if size == 2 else ()))

    def label_names(self, labels: tuple[str, ...], size: int) -> tuple[str, ...]:
        """The names that were given, else the ids as names."""
        return labels or tuple(str(i) for i in range(size))

    def parse(self, values: Sequence[object], labels: Sequence[str]) -> int:
        """A label's id, from its name or, where no name looks like a number, from the id itself."""
        value = values[0] if len(values) == 1 else values
        number = _whole(value)
        # a table of floats holds 1.0 where a label is named "1"; JSON has true where it is named "true"
        forms = [str(value)] if number is None else [str(value), str(number)]
        for name in [*forms, str(value).lower()] if isinstance(value, bool) else forms:
            if name in labels:
                return labels.index(name)
        # with names such as 1, 2, 3 an id could not be told from a name, and is never guessed
        by_id = all(_whole(label) is None for label in labels)
        if by_id and number is not None and number in range(len(labels)):
            return number
        ids = f", or an id from 0 to {len(labels) - 1}" if by_id else ""
        raise ValueError(f"one of {', '.join(labels)}{ids}")

    def check(self, value: Any, size: int) -> None:
        """A label is an id below the size."""
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < size:
            raise ValueError(f"a label id from 0 to {size - 1}")

    def collate(self, values: Sequence[Any], of_this_kind: Sequence[bool]) -> Tensor:
        """Label ids, [E] of int64."""
        import torch

        return torch.tensor([int(v) if mine else 0 for v, mine in zip(values, of_this_kind, strict=True)])

    def decode(self, logits: NDArray[np.float32]) -> NDArray[Any]:
        """The most likely label's id, [N]."""
        return logits.argmax(-1)

    def answer(self, logits: NDArray[np.float32], labels: Sequence[str]) -> dict[str, Any]:
        """The label's name and the probability of each."""
        import numpy as np

        shifted = np.exp((logits - logits.max()).astype(np.float64))
        shares = shifted / shifted.sum()
        by_label = {name: float(p) for name, p in zip(labels, shares, strict=True)}
        return {"label": labels[int(logits.argmax())], "probabilities": by_label}

    def loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        """−log softmax(logits)[label], [E]."""
        from torch.nn import functional as F

        # a label of a task with more classes is out of range here; its weight is 0
        return F.cross_entropy(logits.float(), labels.clamp(0, logits.size(-1) - 1), reduction="none")


def _whole(value: object) -> int | None:
    """The whole number that a value is or spells, or None."""
    if isinstance(value, bool):
        return None
    try:
        number = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return None
    return int(number) if number.is_integer() else None
