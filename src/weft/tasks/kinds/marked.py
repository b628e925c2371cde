"""`marked`: one of C labels for two marked spans: a word in two contexts, a pronoun and its antecedent."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from weft.errors import WeftError, train_key, words
from weft.tasks.kinds.classify import Classify
from weft.tasks.kinds.kind import BadValue, ColumnValues, Inputs, Oddity

if TYPE_CHECKING:
    from weft.data.tokens.tokens import Tokens
    from weft.tasks.task import Task


class Marked(Classify):
    """Classification of [p; m₁; m₂], [3d]: the pooled vector of the row and the mean of each mark's tokens.

    The mean of a mark that was removed by truncation is 0; `weft check` counts such rows.
    """

    name = "marked"
    pipeline_tag = "text-classification"
    options = ("marks", "class_weights", "temperature", "calibrated_on")
    reads = "marked"
    channels = ("marks",)

    def complete(self, task: Task) -> None:
        """Refuse a task without exactly two marks."""
        if len(task.marks) != 2:
            raise WeftError(
                f"task {task.name!r}: marked compares two marks; found {len(task.marks)}: "
                + words(
                    "expected marks: [{text: 0, start: COLUMN, end: COLUMN}, {text: 1, …}]",
                    "expected marks=[{'text': 0, 'start': COLUMN, 'end': COLUMN}, {'text': 1, …}]",
                )
            )

    def oddities(self, tokens: Tokens) -> Iterator[Oddity]:
        """Marks that were removed by truncation."""
        lost = [
            i
            for i in range(len(tokens))
            for marks in tokens.example(i).channel("marks")
            if not ((marks & 1).any() and (marks & 2).any())
        ]
        if lost:
            columns = ", ".join(column for mark in tokens.split.task.marks for column in mark.columns)
            yield Oddity(
                f"{len(lost)} examples lose a marked span by truncation; raise {train_key('max_length')}",
                columns,
                len(lost),
                lost[0],
            )

    def inputs(self, task: Task, values: ColumnValues) -> tuple[Inputs, list[BadValue]]:
        """Return the texts, and the positions of the marks in them."""
        inputs, wrong = super().inputs(task, values)
        if wrong:
            return inputs, wrong
        places = []
        for mark, mark_values in zip(task.marks, values.marks, strict=True):
            try:
                places.append((mark.text, *mark.place(inputs.texts[mark.text], mark_values)))
            except ValueError as expected:
                wrong.append(BadValue(", ".join(mark.columns), mark_values, f"expected {expected}"))
        return Inputs(inputs.texts, tuple(places)), wrong
