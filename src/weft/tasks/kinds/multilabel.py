"""`multilabel`: any subset of C labels, which may be empty."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from weft.tasks.kinds.labelled import Labelled, label_id
from weft.tasks.kinds.probabilities import sigmoid
from weft.tasks.values import listed, whole

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from torch import Tensor

    from weft.core.layout import Layout
    from weft.data.readers.example import ExampleRows
    from weft.tasks.kinds.decisions import Decisions
    from weft.tasks.task import Task


class Multilabel(Labelled):
    """Binary cross-entropy per label; an example's label is the tuple of the ids that hold.

    A file holds them as a list of names or ids, as names separated by commas, or as one 0/1 column per label
    in the order of the labels. A label is predicted if its probability is above one half, or above its
    threshold if the task has `thresholds`.
    """

    name = "multilabel"
    pipeline_tag = "text-classification"
    bag_of_words = "logistic per label"
    has_uncertainty = True
    answer_types = ("label_sets",)
    options = ("apart", "thresholds", "tuned_on", "temperature", "calibrated_on")
    kept_type = "bool"
    empty_label = True
    probe = "flags"

    def parse(self, values: Sequence[object], labels: Sequence[str]) -> tuple[int, ...]:
        """Return the ids that hold, in ascending order."""
        if len(values) > 1:
            flags = [whole(value) if not isinstance(value, bool) else int(value) for value in values]
            if not all(flag in (0, 1) for flag in flags):
                raise ValueError("0 or 1 in each column of the label")
            return tuple(number for number, flag in enumerate(flags) if flag)
        items = _parts(values[0])
        if items is None:
            raise ValueError("a list of labels")
        ids = [label_id(item, labels) for item in items]
        if len(set(ids)) < len(ids):
            raise ValueError("each label once")
        return tuple(sorted(ids))

    def items(self, value: object) -> Sequence[object]:
        """The labels of a list, or of names separated by commas."""
        return _parts(value) or ()

    def check(self, value: Any, size: int) -> None:
        """Accept ids below the size, each at most once."""
        sound = isinstance(value, list | tuple) and all(type(x) is int and 0 <= x < size for x in value)
        if not sound or len(set(value)) < len(value):
            raise ValueError(f"a list of label ids from 0 to {size - 1}, each once")

    def target_shape(self, size: int) -> tuple[int, ...]:
        """One number per label."""
        return (size,)

    def least_size(self, value: Any) -> int:
        """The largest id + 1."""
        return 1 + max(value, default=0)

    def as_array(self, value: Any, size: int) -> NDArray[Any]:
        """1 where a label holds, [size]."""
        import numpy as np

        target = np.zeros(size, self.target_type)
        target[list(value)] = 1
        return target

    def loss(self, logits: Tensor, labels: Tensor, layout: Layout) -> Tensor:
        """The mean over the labels of −[y·log σ(x) + (1 − y)·log(1 − σ(x))], [E]."""
        from torch.nn import functional as F

        size = logits.size(-1)
        targets = F.pad(labels, (0, max(0, size - labels.size(-1))))[:, :size]
        return F.binary_cross_entropy_with_logits(logits.float(), targets, reduction="none").mean(-1)

    def uncertainty(
        self, logits: Tensor, layout: Layout, measure: str, labels: Tensor | None = None
    ) -> Tensor:
        """The mean over the labels of the uncertainty of σ(x) against 1 − σ(x), [E]."""
        from weft.tasks.kinds.uncertainty import of_yes_or_no

        return of_yes_or_no(logits, measure).mean(-1)

    def decode(
        self, logits: Sequence[NDArray[np.float32]], task: Task, examples: Sequence[ExampleRows]
    ) -> NDArray[Any]:
        """1 where a label is predicted, [N, C]."""
        import numpy as np

        return _predicted(np.asarray(logits), task).astype(np.int64)

    def gold(self, labels: Sequence[Any], task: Task, examples: Sequence[ExampleRows]) -> NDArray[Any]:
        """1 where a label holds, else 0, [N, C]."""
        import numpy as np

        targets = np.zeros((len(labels), task.size or 0), np.int64)
        for number, ids in enumerate(labels):
            targets[number, list(ids)] = 1
        return targets

    def decisions(
        self,
        logits: Sequence[NDArray[np.float32]],
        labels: Sequence[Any],
        task: Task,
        examples: Sequence[ExampleRows],
    ) -> Decisions:
        """One decision per example and label: whether it holds."""
        import numpy as np

        from weft.tasks.kinds.decisions import Decisions

        predicted = self.decode(logits, task, ())
        return Decisions.of_flags(np.asarray(logits), self.gold(labels, task, ()), predicted)

    def guess(self, labels: Sequence[Any], task: Task, examples: Sequence[ExampleRows]) -> NDArray[Any]:
        """The labels that more than half of the examples have, [N, C]."""
        import numpy as np

        usual = (self.gold(labels, task, ()).mean(0) > 0.5).astype(np.int64)
        return np.broadcast_to(usual, (len(examples), len(usual)))

    def label_facts(self, labels: Sequence[Any], task: Task) -> dict[str, float]:
        """How many examples have each label, and how many have none."""
        counts = Counter(number for ids in labels for number in ids)
        facts: dict[str, float] = {name: counts[number] for number, name in enumerate(task.labels)}
        return {**facts, "none of them": sum(not ids for ids in labels)}

    def label_flags(self, labels: Sequence[Any], task: Task) -> NDArray[np.bool_]:
        """Any number of labels per example, [n, C]."""
        return self.gold(labels, task, ()) == 1

    def example_answer(self, task: Task) -> dict[str, Any]:
        """Labels, and a number per label."""
        return {"labels": [""], "probabilities": dict.fromkeys(task.labels, 0.0)}

    def answer(self, logits: NDArray[np.float32], task: Task, example: ExampleRows) -> dict[str, Any]:
        """The labels that hold, and the probability of each."""
        holds = _predicted(logits, task)
        predicted = [name for name, positive in zip(task.labels, holds, strict=True) if positive]
        chances = sigmoid(logits, task.temperature)
        by_label = {name: float(p) for name, p in zip(task.labels, chances, strict=True)}
        return {"labels": predicted, "probabilities": by_label}


def _parts(value: object) -> list[object] | None:
    """The items of a list or of a text with commas; None for any other value."""
    if isinstance(value, str):
        return [part.strip() for part in value.split(",") if part.strip()]
    return listed(value)


def _predicted(logits: NDArray[Any], task: Task) -> NDArray[np.bool_]:
    """Where a label is predicted, [..., C]."""
    return sigmoid(logits, task.temperature) > task.thresholds if task.thresholds else logits > 0
