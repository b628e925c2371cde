"""`classify`: one of C labels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from weft.tasks.kinds.labelled import Labelled, label_id
from weft.tasks.kinds.probabilities import softmax

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from torch import Tensor

    from weft.core.layout import Layout
    from weft.data.readers.example import ExampleRows
    from weft.tasks.kinds.decisions import Decisions
    from weft.tasks.task import Task


class Classify(Labelled):
    """Cross-entropy over C logits; a label is stored as its id."""

    name = "classify"
    pipeline_tag = "text-classification"
    has_uncertainty = True
    answer_types = ("labels",)
    has_classes = True
    bag_of_words = "logistic"
    target_type = "int64"
    probe = "classes"
    options: ClassVar[tuple[str, ...]] = ("apart", "class_weights", "temperature", "calibrated_on")

    def parse(self, values: Sequence[object], labels: Sequence[str]) -> int:
        """Return a label's id from its name or, if no name looks like a number, from the id itself."""
        value = values[0] if len(values) == 1 else values
        return label_id(value, labels)

    def check(self, value: Any, size: int) -> None:
        """Accept an id below the size."""
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < size:
            raise ValueError(f"a label id from 0 to {size - 1}")

    def table(self, labels: Sequence[Any], task: Task) -> NDArray[Any] | None:
        """Label ids, [n]."""
        import numpy as np

        if bool in set(map(type, labels)):  # an array of integers would silently hold True as 1
            return None
        ids = np.asarray(labels)
        sound = ids.ndim == 1 and ids.dtype == np.int64 and ids.size and ids.min() >= 0
        return ids if sound and ids.max() < (task.size or 0) else None

    def decode(
        self, logits: Sequence[NDArray[np.float32]], task: Task, examples: Sequence[ExampleRows]
    ) -> NDArray[Any]:
        """The most likely label's id, [N]."""
        import numpy as np

        return np.asarray(logits).argmax(-1)

    def decisions(
        self,
        logits: Sequence[NDArray[np.float32]],
        labels: Sequence[Any],
        task: Task,
        examples: Sequence[ExampleRows],
    ) -> Decisions:
        """One decision per example, among the C labels."""
        import numpy as np

        from weft.tasks.kinds.decisions import Decisions

        return Decisions.of_classes(np.asarray(logits), labels)

    def guess(self, labels: Sequence[Any], task: Task, examples: Sequence[ExampleRows]) -> NDArray[Any]:
        """The most frequent label, [N]."""
        import numpy as np

        return np.full(len(examples), np.bincount(np.asarray(labels)).argmax())

    def label_facts(self, labels: Sequence[Any], task: Task) -> dict[str, float]:
        """How many examples have each label."""
        counts = Counter(labels)
        return {name: counts[number] for number, name in enumerate(task.labels)}

    def label_flags(self, labels: Sequence[Any], task: Task) -> NDArray[np.bool_]:
        """One label per example, [n, C]."""
        import numpy as np

        return np.asarray(labels)[:, None] == np.arange(task.size or 0)

    def example_answer(self, task: Task) -> dict[str, Any]:
        """A label, and a number per label."""
        return {"label": "", "probabilities": dict.fromkeys(task.labels, 0.0)}

    def answer(self, logits: NDArray[np.float32], task: Task, example: ExampleRows) -> dict[str, Any]:
        """The name of the most likely label, and the probability of each label."""
        chances = softmax(logits, task.temperature)
        by_label = {name: float(p) for name, p in zip(task.labels, chances, strict=True)}
        return {"label": task.labels[int(logits.argmax())], "probabilities": by_label}

    def answers(
        self, logits: Sequence[NDArray[np.float32]], task: Task, examples: Sequence[ExampleRows]
    ) -> list[dict[str, Any]]:
        """The same as `answer`, for all examples at once."""
        import numpy as np

        stacked = np.asarray(logits)
        names = task.labels
        best, chances = stacked.argmax(-1).tolist(), softmax(stacked, task.temperature).tolist()
        return [
            {"label": names[i], "probabilities": dict(zip(names, by_label, strict=True))}
            for i, by_label in zip(best, chances, strict=True)
        ]

    def loss(self, logits: Tensor, labels: Tensor, layout: Layout) -> Tensor:
        """−log softmax(logits)[label], [E]."""
        from torch.nn import functional as F

        # the label of a task with more classes is out of range here; its weight is 0
        return F.cross_entropy(logits.float(), labels.clamp(0, logits.size(-1) - 1), reduction="none")

    def uncertainty(
        self, logits: Tensor, layout: Layout, measure: str, labels: Tensor | None = None
    ) -> Tensor:
        """The uncertainty over the C labels, [E]."""
        from weft.tasks.kinds.uncertainty import of_classes

        return of_classes(logits, measure)
