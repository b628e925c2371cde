"""Kinds that score several texts of one example: a row for each, and the scores side by side."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, ClassVar

from weft.errors import WeftError
from weft.tasks.kinds.kind import Given, Inputs, Kind, Oddity, Wrong
from weft.tasks.values import listed, wrong_text

if TYPE_CHECKING:
    from torch import Tensor

    from weft.core.layout import Layout
    from weft.data.tokens.tokens import Tokens
    from weft.tasks.task import Task

PLACEHOLDER = "@placeholder"


class Candidates(Kind):
    """A row and a score for every choice, of which an example may have any number.

    With one text a row is (text, choice); with two it is (first text, second text with the choice in place
    of "@placeholder" or, where that does not stand there, after it).

    Attributes:
        least: the fewest choices of an example.
    """

    answers_by = targets_by = "row"
    has_uncertainty = True
    least: ClassVar[int] = 2

    def uncertainty(
        self, logits: Tensor, layout: Layout, measure: str, labels: Tensor | None = None
    ) -> Tensor:
        """Over the example's choices, as the softmax loss takes them, C their number, [E]; of one alone 0."""
        from weft.tasks.kinds.uncertainty import of_rows

        return of_rows(logits[:, 0], layout, measure)

    def size(self, task: str, labels: Sequence[str], size: int | None) -> int:
        """One score a choice."""
        if labels or size not in (None, 1):
            raise WeftError(
                f"task {task!r}: {self.name} has no labels and no size: choices belong to each example"
            )
        return 1

    def complete(self, task: Task) -> None:
        """There are choices."""
        if not task.choices:
            raise WeftError(
                f"task {task.name!r}: {self.name} needs 'choices': the columns of the choices, or the one "
                "that holds a list of them"
            )

    def inputs(self, task: Task, given: Given) -> tuple[Inputs, list[Wrong]]:
        """The texts, then the choices."""
        found, wrong = super().inputs(task, given)
        many = "one choice or more" if self.least == 1 else "two choices or more"
        if len(given.choices) == 1:
            column, value = task.choices[0], given.choices[0]
            choices = listed(value)
            if choices is None or len(choices) < self.least:
                return found, [*wrong, Wrong(column, value, f"expected a list of {many}")]
            columns = [column] * len(choices)
        else:
            # an example may have fewer choices than there are columns
            pairs = [(c, v) for c, v in zip(task.choices, given.choices, strict=True) if not _absent(v)]
            columns, choices = [c for c, _ in pairs], [v for _, v in pairs]
            if len(choices) < self.least:
                columns_told = ", ".join(task.choices)
                return found, [*wrong, Wrong(columns_told, given.choices, f"expected {many}")]
        for column, choice in zip(columns, choices, strict=True):
            if message := wrong_text(choice):
                wrong.append(Wrong(column, choice, message))
        return Inputs((*found.texts, *(str(choice) for choice in choices))), wrong

    def oddities(self, tokens: Tokens) -> Iterator[Oddity]:
        """How many choices the examples have, and those with one alone."""
        before = len(tokens.split.task.texts)
        sizes = Counter(len(texts) - before for texts in tokens.split.texts)
        column = ", ".join(tokens.split.task.choices)
        told = ", ".join(f"{count} with {size}" for size, count in sorted(sizes.items())[:8])
        if len(sizes) > 1:
            yield Oddity(f"examples differ in their number of choices: {told}", column, told, None, "note")
        alone = [i for i, texts in enumerate(tokens.split.texts) if len(texts) - before == 1]
        if alone:
            message = f"{len(alone)} examples have one choice alone: nothing is learnt from them"
            yield Oddity(message, column, len(alone), alone[0])

    def rows(self, task: Task, texts: tuple[str, ...]) -> list[tuple[str, ...]]:
        """A row a choice."""
        return rows_of_choices(texts, len(task.texts))


def rows_of_choices(texts: tuple[str, ...], before: int) -> list[tuple[str, ...]]:
    """The rows of (text, choice), or of (text, text with the choice); the first `before` are texts."""
    given, choices = texts[:before], texts[before:]
    if before == 1:
        return [(given[0], choice) for choice in choices]
    stem = given[1]
    if PLACEHOLDER in stem:
        return [(given[0], stem.replace(PLACEHOLDER, choice)) for choice in choices]
    return [(given[0], f"{stem} {choice}") for choice in choices]


def _absent(value: object) -> bool:
    return value is None or (isinstance(value, str) and not value.strip())
