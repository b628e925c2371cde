"""Candidates: the base of kinds that score several choices per example, one row per choice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, ClassVar

from weft.errors import WeftError
from weft.tasks.kinds.kind import BadValue, ColumnValues, Inputs, Kind, Oddity
from weft.tasks.values import listed, wrong_text

if TYPE_CHECKING:
    from torch import Tensor

    from weft.core.layout import Layout
    from weft.data.tokens.tokens import Tokens
    from weft.tasks.task import Task

PLACEHOLDER = "@placeholder"


class Candidates(Kind):
    """One row and one score per choice; examples may have any number of choices.

    With one text, a row is (text, choice). With two, it is (first text, second text with "@placeholder"
    replaced by the choice or, without a placeholder, followed by the choice).

    Attributes:
        least: the minimal number of choices of an example.
    """

    answers_by = targets_by = "row"
    has_uncertainty = True
    least: ClassVar[int] = 2

    def uncertainty(
        self, logits: Tensor, layout: Layout, measure: str, labels: Tensor | None = None
    ) -> Tensor:
        """The uncertainty of the softmax over an example's C choices, [E]; 0 if there is only one."""
        from weft.tasks.kinds.uncertainty import of_rows

        return of_rows(logits[:, 0], layout, measure)

    def size(self, task: str, labels: Sequence[str], size: int | None) -> int:
        """One score per choice."""
        if labels or size not in (None, 1):
            raise WeftError(
                f"task {task!r}: {self.name} has neither labels nor size: choices belong to each example"
            )
        return 1

    def complete(self, task: Task) -> None:
        """Refuse a task without choices."""
        if not task.choices:
            raise WeftError(
                f"task {task.name!r}: {self.name} needs 'choices': the columns of the choices, or the column "
                "that holds a list of them"
            )

    def inputs(self, task: Task, values: ColumnValues) -> tuple[Inputs, list[BadValue]]:
        """Return the texts, followed by the choices."""
        inputs, wrong = super().inputs(task, values)
        expected_count = "one choice or more" if self.least == 1 else "two choices or more"
        if len(values.choices) == 1:
            column, value = task.choices[0], values.choices[0]
            choices = listed(value)
            if choices is None or len(choices) < self.least:
                return inputs, [*wrong, BadValue(column, value, f"expected a list of {expected_count}")]
            columns = [column] * len(choices)
        else:
            # an example may have fewer choices than there are columns
            pairs = [(c, v) for c, v in zip(task.choices, values.choices, strict=True) if not _absent(v)]
            columns, choices = [c for c, _ in pairs], [v for _, v in pairs]
            if len(choices) < self.least:
                all_columns = ", ".join(task.choices)
                return inputs, [*wrong, BadValue(all_columns, values.choices, f"expected {expected_count}")]
        for column, choice in zip(columns, choices, strict=True):
            if message := wrong_text(choice):
                wrong.append(BadValue(column, choice, message))
        return Inputs((*inputs.texts, *(str(choice) for choice in choices))), wrong

    def oddities(self, tokens: Tokens) -> Iterator[Oddity]:
        """Different numbers of choices, and examples with a single choice."""
        before = len(tokens.split.task.texts)
        sizes = Counter(len(texts) - before for texts in tokens.split.texts)
        column = ", ".join(tokens.split.task.choices)
        text = ", ".join(f"{count} with {size}" for size, count in sorted(sizes.items())[:8])
        if len(sizes) > 1:
            yield Oddity(f"examples have different numbers of choices: {text}", column, text, None, "note")
        alone = [i for i, texts in enumerate(tokens.split.texts) if len(texts) - before == 1]
        if alone:
            message = f"{len(alone)} examples have a single choice: nothing is learned from them"
            yield Oddity(message, column, len(alone), alone[0])

    def rows(self, task: Task, texts: tuple[str, ...]) -> list[tuple[str, ...]]:
        """One row per choice."""
        return rows_of_choices(texts, len(task.texts))


def rows_of_choices(texts: tuple[str, ...], before: int) -> list[tuple[str, ...]]:
    """Return rows (text, choice) or (text, text with the choice); the first `before` items are texts."""
    questions, choices = texts[:before], texts[before:]
    if before == 1:
        return [(questions[0], choice) for choice in choices]
    stem = questions[1]
    if PLACEHOLDER in stem:
        return [(questions[0], stem.replace(PLACEHOLDER, choice)) for choice in choices]
    return [(questions[0], f"{stem} {choice}") for choice in choices]


def characters_of_choices(texts: tuple[str, ...], before: int) -> int:
    """Return how many characters the rows of `rows_of_choices` have together, without making them.

    Each row has all texts, and its choice once or at each placeholder.
    """
    questions, choices = texts[:before], texts[before:]
    times = max(1, questions[1].count(PLACEHOLDER)) if before == 2 else 1
    return len(choices) * sum(map(len, questions)) + times * sum(map(len, choices))


def _absent(value: object) -> bool:
    return value is None or (isinstance(value, str) and not value.strip())
