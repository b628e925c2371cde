"""Runs the model for the batcher: tokenizes questions, cuts them into batches, answers each batch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.inference.batches import OVERHEAD, by_cost
from weft.inference.batches import TOKENS as FULL
from weft.inference.captures import input_names
from weft.inference.examples import Examples
from weft.inference.finite import check_logits
from weft.inference.ladder import to_capture
from weft.inference.logits import AllLogits
from weft.inference.precision import precision_context
from weft.inference.predict import QUEUED
from weft.inference.predict_all import answers_of_inputs
from weft.inference.runner import all_logits
from weft.inference.slab import tokenize_inputs
from weft.serving.questions.question import Embed, Many, One
from weft.tasks.kinds import KINDS

if TYPE_CHECKING:
    from weft.inference.precision import Precision
    from weft.model.model import Model
    from weft.serving.batching.ticket import Item

TOKENS = {"cpu": 2048, "cuda": FULL}
"""Token positions of a batch: so many that a larger batch is hardly faster per text."""

MANY = 64
"""The most texts of a pass for many tasks, and of one for embeddings."""


@dataclass(frozen=True, eq=False)
class Batch:
    """Some questions that are answered together.

    Attributes:
        items: the questions: all `One`, all `Many`, or all `Embed` of one task.
        rows: the number of rows; for `Many` and `Embed`, of pairs of a text and a task.
        positions: token positions, padding included; 0 if they are not known before the pass.
        tokens: token positions without padding; 0 as above.
    """

    items: Sequence[Item]
    rows: int = 0
    positions: int = 0
    tokens: int = 0


class Worker:
    """The model, as the batcher uses it. One thread calls `start` and `finish`; a second one may tokenize.

    Args:
        model: the model.
        precision: the precision of its passes; None: float32, or int8 if the model is quantized.
        tokens: token positions of a batch, padding included; None: `TOKENS` of the model's device.
        overhead: what a pass on a CPU costs besides its rows, in token positions.
    """

    def __init__(
        self,
        model: Model,
        precision: Precision | None = None,
        tokens: int | None = None,
        overhead: float = OVERHEAD,
    ) -> None:
        self.model, self.precision, self._overhead = model, precision, overhead
        self._device = next(model.parameters()).device.type
        self.tokens = tokens or TOKENS.get(self._device, TOKENS["cpu"])
        self._inside = precision_context(model, precision)

    @property
    def waits(self) -> bool:
        """Whether `start` returns before the results are there, as on a GPU."""
        return self._device == "cuda"

    def tokenize(self, items: Sequence[Item]) -> None:
        """Tokenize those questions that have one task, together where their tokens depend on no task."""
        waiting = [
            (item, item.question) for item in items if item.tokens is None and isinstance(item.question, One)
        ]
        slab = tokenize_inputs(self.model, [(question.task, question.inputs) for _, question in waiting])
        tasks, numbers = slab.examples.task.tolist(), slab.examples.index.tolist()
        for (item, _), task, example in zip(waiting, tasks, numbers, strict=True):
            item.tokens, item.example = slab.tokens[task], example

    def batches(self, items: Sequence[Item]) -> Iterator[Batch]:
        """Cut questions into batches: those for one task by length, whatever their tasks.

        Args:
            items: the questions; those for one task are tokenized.
        """
        single = [item for item in items if isinstance(item.question, One)]
        if single:
            examples = self._examples(single)
            for cut in self._cuts(examples):
                numbers = np.asarray(cut)
                lengths, counts = examples.lengths[numbers], examples.counts[numbers]
                rows = int(counts.sum())
                yield Batch(
                    [single[i] for i in numbers.tolist()],
                    rows,
                    rows * int(lengths.max()),
                    int((lengths * counts).sum()),
                )
        many = [item for item in items if isinstance(item.question, Many)]
        for first in range(0, len(many), MANY):
            chosen = many[first : first + MANY]
            questions: list[Any] = [item.question for item in chosen]
            yield Batch(chosen, sum(len(question.inputs) for question in questions))
        embeds: dict[Any, list[Item]] = {}
        for item in items:
            if isinstance(item.question, Embed):
                embeds.setdefault((item.question.task, item.question.normalize), []).append(item)
        for group in embeds.values():
            for first in range(0, len(group), MANY):
                chosen = group[first : first + MANY]
                yield Batch(chosen, len(chosen))

    def start(self, batch: Batch) -> Any:
        """Run the model over a batch; on a GPU its results may still be on their way."""
        kind = type(batch.items[0].question)
        if kind is One:
            examples = self._examples(batch.items)
            most = max(batch.rows, 1) if self._device != "cuda" else None
            logits = all_logits(self.model, examples, most, precision=self._inside, ahead=QUEUED)
            return examples, logits
        questions: list[Any] = [item.question for item in batch.items]
        if kind is Many:
            inputs = [question.inputs for question in questions]
            return answers_of_inputs(self.model, inputs, precision=self.precision, tell_truncated=True)
        first = questions[0]
        vectors = self.model.embed(
            [q.text for q in questions], first.task, first.normalize, precision=self.precision
        )
        return vectors.tolist()

    def finish(self, batch: Batch, started: Any) -> list[Any]:
        """Return the answer to each question of a batch that was started."""
        if type(batch.items[0].question) is One:
            return self._decoded(batch.items, *started)
        if type(batch.items[0].question) is Many:
            return [{"tasks": answers} for answers in started]
        return list(started)

    def _examples(self, items: Sequence[Item]) -> Examples:
        each: list[Any] = list(items)  # all of them are `One`, and tokenized
        return Examples.of([(item.question.task, item.tokens, item.example) for item in each])

    def _cuts(self, examples: Examples) -> list[Any]:
        if not self.waits:
            return [cut.chosen for cut in by_cost(examples, self._overhead, self.tokens)]
        spare = "example" in input_names(self.model, examples.splits)
        requested = self.model.captures.requested
        usual = self.tokens == FULL  # else full batches have shapes that are not captured
        overhead = requested.overhead if requested is not None and usual else None
        cuts = to_capture(examples, self.model.longest, self.tokens, spare=spare, overhead=overhead)
        return [cut.chosen for cut in cuts]

    def _decoded(self, items: Sequence[Item], examples: Examples, logits: AllLogits) -> list[Any]:
        model = self.model
        logits.finish()
        check_logits(model.tasks, examples.task, logits.of_examples(logits.odd))
        answers: list[Any] = [None] * len(items)
        of_example = examples.task.tolist()
        for index, numbers in examples.of_each_task(model.captures.facts(model.tasks).alike):
            task, listed = model.tasks[index], numbers.tolist()
            rows = _Rows([items[i] for i in listed])
            first = of_example[listed[0]]
            decoded = KINDS[task.kind]().answers(logits.of_task(first, numbers), task, rows)
            for number, answer in zip(listed, decoded, strict=True):
                answers[number] = {"task": model.tasks[of_example[number]].name, **answer}
        for answer, item in zip(answers, items, strict=True):
            assert item.tokens is not None
            answer["truncated"] = item.tokens.is_truncated(item.example)
        return answers


class _Rows(Sequence[Any]):
    """The rows of several questions, built when they are read: most kinds read none."""

    def __init__(self, items: Sequence[Item]) -> None:
        self._items = items

    def __len__(self) -> int:
        return len(self._items)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return _Rows(self._items[index])
        item = self._items[index]
        assert item.tokens is not None
        return item.tokens.example(item.example)
