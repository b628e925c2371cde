"""`choose`: multiple choice; examples may differ in their number of choices."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from weft.tasks.kinds.candidates import Candidates
from weft.tasks.kinds.kind import Inputs
from weft.tasks.kinds.probabilities import softmax
from weft.tasks.values import listed, whole

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from torch import Tensor

    from weft.core.layout import Layout
    from weft.data.readers.example import ExampleRows
    from weft.tasks.kinds.decisions import Decisions
    from weft.tasks.task import Task


class Choose(Candidates):
    """One score per choice; the softmax is over an example's rows.

    ℓ = −log Σ_{right i} softmax(s)_i. A label is the tuple of the right ids, usually a single one.
    """

    name = "choose"
    pipeline_tag = "multiple-choice"
    answer_types = ("choices", "texts")
    options = ("choices", "temperature", "calibrated_on")
    stand_in = 1.0  # keeps the loss of rows of other kinds finite

    def parse(self, values: Sequence[object], labels: Sequence[str]) -> tuple[int, ...]:
        """Return the right ids, from a single one or from a list."""
        items = listed(values[0])
        ids = [whole(item) for item in ([values[0]] if items is None else items)]
        if not ids or any(number is None or number < 0 for number in ids):
            raise ValueError("the index of the right choice, counted from 0, or a list of indices")
        return tuple(sorted({number for number in ids if number is not None}))

    def fits(self, label: Any, task: Task, inputs: Inputs) -> None:
        """Accept ids of existing choices."""
        choices = len(inputs.texts) - len(task.texts)
        if label[-1] >= choices:
            raise ValueError(f"the index of a choice, from 0 to {choices - 1}: the example has {choices}")

    def target(self, label: Any, task: Task, example: ExampleRows) -> list[float]:
        """1 for the row of a right choice, else 0."""
        return [float(number in label) for number in range(example.count)]

    def check(self, value: Any, size: int) -> None:
        """Accept one number per row, at least one of them above 0."""
        sound = isinstance(value, list | tuple) and all(type(x) in (int, float) and x >= 0 for x in value)
        if not sound or not any(value):
            raise ValueError("a list of numbers, one per row of the example, above 0 for a right choice")

    def loss(self, logits: Tensor, labels: Tensor, layout: Layout) -> Tensor:
        """−log of the probability of the right rows, [E]."""
        scores = logits.float()[:, 0]
        return layout.log_sum_exp(scores) - layout.log_sum_exp(scores, (labels > 0).float())

    def decode(
        self, logits: Sequence[NDArray[np.float32]], task: Task, examples: Sequence[ExampleRows]
    ) -> list[tuple[int, str]]:
        """(index, text) of the choice with the highest score."""
        best = [int(x.argmax()) for x in logits]
        pairs = zip(best, examples, strict=True)
        return [(i, example.texts[len(task.texts) + i]) for i, example in pairs]

    def gold(
        self, labels: Sequence[Any], task: Task, examples: Sequence[ExampleRows]
    ) -> list[list[tuple[int, str]]]:
        """(index, text) of each right choice."""
        first = len(task.texts)
        pairs = zip(labels, examples, strict=True)
        return [[(i, example.texts[first + i]) for i in label] for label, example in pairs]

    def decisions(
        self,
        logits: Sequence[NDArray[np.float32]],
        labels: Sequence[Any],
        task: Task,
        examples: Sequence[ExampleRows],
    ) -> Decisions:
        """One decision per example, among its choices."""
        from weft.tasks.kinds.decisions import Decisions

        return Decisions.of_candidates(logits, labels)

    def compared(self, answer_type: str, gold: Any, predictions: Any) -> tuple[Any, Any]:
        """Compare choices by their indices, or by their texts."""
        if answer_type == "texts":
            return [[text for _, text in rights] for rights in gold], [text for _, text in predictions]
        right = [float(i in [n for n, _ in rights]) for (i, _), rights in zip(predictions, gold, strict=True)]
        return [1.0] * len(right), right

    def guess(
        self, labels: Sequence[Any], task: Task, examples: Sequence[ExampleRows]
    ) -> list[tuple[int, str]]:
        """The index that is right most often, or the last one if there are fewer choices."""
        import numpy as np

        usual = int(np.bincount([i for ids in labels for i in ids]).argmax())
        first = len(task.texts)
        chosen = [min(usual, len(example.texts) - first - 1) for example in examples]
        return [(i, example.texts[first + i]) for i, example in zip(chosen, examples, strict=True)]

    def label_facts(self, labels: Sequence[Any], task: Task) -> dict[str, float]:
        """How often each index is right."""
        counts = Counter(number for ids in labels for number in ids)
        return {f"choice {number}": counts[number] for number in sorted(counts)[:12]}

    def example_answer(self, task: Task) -> dict[str, Any]:
        """A number, a text, and a number per choice."""
        return {"choice": 0, "text": "", "probabilities": [0.0]}

    def answer(self, logits: NDArray[np.float32], task: Task, example: ExampleRows) -> dict[str, Any]:
        """The index and the text of the best choice, and the probability of each choice."""
        number = int(logits.argmax())
        text = example.texts[len(task.texts) + number]
        chances = [float(p) for p in softmax(logits, task.temperature)]
        return {"choice": number, "text": text, "probabilities": chances}
