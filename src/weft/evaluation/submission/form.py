"""The form of one submission file: its answers, how they are written, and its filler."""

from __future__ import annotations

import math
import operator
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from weft.data.readers.problem import show
from weft.errors import WeftError

Written = str | int
"""An answer as it is written in a file."""


@dataclass(frozen=True)
class Predicted:
    """The answers for a test set.

    Attributes:
        answers: one answer per example: a label's id (in the hub's order) or its name; a number; a text;
            for a choice its id, its text, or both, (id, text).
        ids: the id of each example; None: they are in the official order.
    """

    answers: Sequence[Any]
    ids: Sequence[Any] | None = None


@dataclass(frozen=True)
class Form(ABC):
    """One file of a submission.

    Attributes:
        file: its name.
        key: the name of its answers among predictions.
        rows: the number of answers.
        filler: the answer in every row if there are no answers.
        why: a description of the filler.
        task: the task whose head gives the answers.
        set: the further set of that task to answer; None: its test split.
        rule: why the file is filled even if there are answers, unless the user insists; empty: no rule.
    """

    file: str
    key: str
    rows: int
    filler: Any
    why: str
    task: str
    set: str | None = None
    rule: str = ""

    @abstractmethod
    def written(self, answer: Any) -> Written:
        """Return an answer as it is written in the file.

        Raises:
            ValueError: with what was expected.
        """

    @abstractmethod
    def wrong(self, value: Any) -> str | None:
        """Return what was expected instead of a value of the file; None if the value is right."""

    def all_written(self, predicted: Predicted) -> list[Written]:
        """Return the answers as they are written in the file, in their order.

        Raises:
            WeftError: they are too few or too many, or one cannot be written.
        """
        count = len(predicted.answers)
        self.check_count(count, "answers")
        if predicted.ids is not None and len(predicted.ids) != count:
            raise WeftError(f"task {self.key!r}: {count:,} answers, but {len(predicted.ids):,} ids")
        words = []
        for number, answer in enumerate(predicted.answers, 1):
            try:
                words.append(self.written(answer))
            except ValueError as wrong:
                raise WeftError(
                    f"task {self.key!r}, answer {number}: found {show(answer)}; expected {wrong}"
                ) from None
        return words

    def check_count(self, count: int, noun: str) -> None:
        """Raise a WeftError if the count is not that of the official test set."""
        if count != self.rows:
            raise WeftError(
                f"task {self.key!r}: found {count:,} {noun}; {self.file} takes {self.rows:,}, one for each "
                f"example of the official test set; set that as the task's test file, or fill the file "
                f"with: --fill {self.key}"
            )

    def filled(self) -> list[Written]:
        """Return the filler once for each row of the file."""
        return [self.written(self.filler)] * self.rows


@dataclass(frozen=True)
class LabelForm(Form):
    """A file of labels.

    Attributes:
        names: the labels' names in the order of their ids, as on the hub; `a|b` are two names of one label.
        words: the word written for each label; by default its name.
    """

    names: tuple[str, ...] = ()
    words: tuple[Written, ...] = ()

    @property
    def values(self) -> tuple[Written, ...]:
        """The words allowed in the file, in the order of the labels' ids."""
        return self.words or tuple(self._names)

    @property
    def _names(self) -> list[str]:
        return [names.split("|")[0] for names in self.names]

    def label_id(self, name: str) -> int:
        """The id of a label by its name, upper or lower case.

        Raises:
            ValueError: with what was expected.
        """
        folded = name.strip().casefold()
        for number, names in enumerate(self.names):
            if folded in names.casefold().split("|"):
                return number
        raise ValueError(f"one of {', '.join(self._names)}")

    def written(self, answer: Any) -> Written:
        """The word of a label, by its id, its name or, of a choice, (id, text)."""
        if isinstance(answer, tuple) and answer:
            answer = answer[0]
        number = self.label_id(answer) if isinstance(answer, str) else _whole(answer)
        if number is None or not 0 <= number < len(self.names):
            names = ", ".join(self._names)
            raise ValueError(f"a label's id, 0 to {len(self.names) - 1}, or its name: {names}")
        return self.values[number]

    def wrong(self, value: Any) -> str | None:
        """Expects one of the words."""
        # 1 == True in Python, but a server that compares strings tells them apart
        if any(type(value) is type(word) and value == word for word in self.values):
            return None
        return " or ".join(repr(word) for word in self.values)


@dataclass(frozen=True)
class NumberForm(Form):
    """A file of numbers, clipped to a range, with three decimals."""

    low: float = 0.0
    high: float = 5.0

    def written(self, answer: Any) -> Written:
        """The number, clipped."""
        try:
            number = float(answer)
        except (TypeError, ValueError):
            number = math.nan
        if not math.isfinite(number):
            raise ValueError("a finite number")
        return f"{min(max(number, self.low), self.high):.3f}"

    def wrong(self, value: Any) -> str | None:
        """Expects a number inside the range."""
        try:
            inside = self.low <= float(value) <= self.high
        except (TypeError, ValueError):
            inside = False
        return None if inside else f"a number from {self.low:g} to {self.high:g}"


@dataclass(frozen=True)
class TextForm(Form):
    """A file of texts."""

    def written(self, answer: Any) -> Written:
        """The text; for a choice, that of (id, text)."""
        if isinstance(answer, tuple) and answer:
            answer = answer[-1]
        if not isinstance(answer, str):
            raise ValueError("a text")
        return answer

    def wrong(self, value: Any) -> str | None:
        """Expects a text that is not empty."""
        return None if isinstance(value, str) and value.strip() else "a text"


def in_order(form: Form, predicted: Predicted, values: Iterable[Written]) -> list[Written]:
    """Return the values in the order of the ids 0 … n − 1.

    Raises:
        WeftError: an id is out of range or occurs twice.
    """
    if predicted.ids is None:
        return list(values)
    placed: dict[int, Written] = {}
    for example_id, value in zip(predicted.ids, values, strict=True):
        number = whole_id(form, example_id)
        if not 0 <= number < form.rows or number in placed:
            problem = "occurs twice" if number in placed else f"expected 0 to {form.rows - 1}"
            raise WeftError(
                f"task {form.key!r}: id {show(example_id)}: {problem}; {form.file} has each id once"
            )
        placed[number] = value
    return [placed[number] for number in range(form.rows)]


def whole_id(form: Form, example_id: Any) -> int:
    """Return an id as a whole number; of several columns, the last one is the id of the example."""
    number = _whole(example_id[-1] if isinstance(example_id, tuple | list) and example_id else example_id)
    if number is None:
        raise WeftError(f"task {form.key!r}: id {show(example_id)}: expected a whole number")
    return number


def _whole(value: Any) -> int | None:
    try:
        return int(value) if isinstance(value, str) else operator.index(value)
    except (TypeError, ValueError):
        return None
