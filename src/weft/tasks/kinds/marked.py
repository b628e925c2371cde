"""`marked`: one of C labels for two marked places: a word in two contexts, a pronoun and its antecedent."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from weft.errors import WeftError
from weft.tasks.kinds.classify import Classify
from weft.tasks.kinds.kind import Given, Inputs, Oddity, Wrong

if TYPE_CHECKING:
    from weft.data.tokens.tokens import Tokens
    from weft.tasks.task import Task


class Marked(Classify):
    """Classification of [p; m₁; m₂]: what heads read of the row, and the mean of each mark's tokens, [3d].

    A mark that was cut off with the end of its text has the mean 0; `weft check` counts such rows.
    """

    name = "marked"
    options = ("marks", "class_weights")
    reads = "marked"
    channels = ("marks",)

    def complete(self, task: Task) -> None:
        """There are two marks."""
        if len(task.marks) != 2:
            raise WeftError(
                f"task {task.name!r}: marked compares two marks; found {len(task.marks)}: "
                "expected marks: [{text: 0, start: COLUMN, end: COLUMN}, {text: 1, …}]"
            )

    def oddities(self, tokens: Tokens) -> Iterator[Oddity]:
        """Marks that were cut off with the end of their text."""
        lost = [
            i
            for i in range(len(tokens))
            for found in tokens.example(i).channel("marks")
            if not ((found & 1).any() and (found & 2).any())
        ]
        if lost:
            columns = ", ".join(column for mark in tokens.split.task.marks for column in mark.columns)
            yield Oddity(
                f"{len(lost)} examples lose a marked place by truncation; raise train.max_length",
                columns,
                len(lost),
                lost[0],
            )

    def inputs(self, task: Task, given: Given) -> tuple[Inputs, list[Wrong]]:
        """The texts, and where the marks are in them."""
        found, wrong = super().inputs(task, given)
        if wrong:
            return found, wrong
        places = []
        for mark, values in zip(task.marks, given.marks, strict=True):
            try:
                places.append((mark.text, *mark.place(found.texts[mark.text], values)))
            except ValueError as expected:
                wrong.append(Wrong(", ".join(mark.columns), values, f"expected {expected}"))
        return Inputs(found.texts, tuple(places)), wrong
