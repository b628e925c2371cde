"""The form of one file of a submission: which answers it takes, how they are written, what fills it."""

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
"""An answer as it stands in a file."""


@dataclass(frozen=True)
class Predicted:
    """The answers for a test set.

    Attributes:
        answers: an answer for each example: a label's id (in the hub's order) or its name; a number; a text;
            of a choice its id, its text, or both, (id, text).
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
        rows: how many answers it takes.
        filler: the answer that stands in every row where there are none.
        why: what kind of answer that is.
        task: the task whose head gives the answers.
        set: which of that task's further sets they are of; None: its test split.
        rule: why the file is filled even if there are answers, unless these are insisted on; empty: no rule.
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
        """An answer as it stands in the file.

        Raises:
            ValueError: with what was expected.
        """

    @abstractmethod
    def wrong(self, value: Any) -> str | None:
        """What was expected in place of a value that stands in a file; None if it is right."""

    def all_written(self, predicted: Predicted) -> list[Written]:
        """The answers as they stand in the file, in the order they are given in.

        Raises:
            WeftError: they are too few or too many, or one cannot be written.
        """
        count = len(predicted.answers)
        self.check_count(count, "answers")
        if predicted.ids is not None and len(predicted.ids) != count:
            raise WeftError(f"task {self.key!r}: {count:,} answers, but {len(predicted.ids):,} ids")
        found = []
        for number, answer in enumerate(predicted.answers, 1):
            try:
                found.append(self.written(answer))
            except ValueError as wrong:
                raise WeftError(
                    f"task {self.key!r}, answer {number}: found {show(answer)}; expected {wrong}"
                ) from None
        return found

    def check_count(self, count: int, what: str) -> None:
        """Refuse what is no official test set, by a WeftError."""
        if count != self.rows:
            raise WeftError(
                f"task {self.key!r}: found {count:,} {what}; {self.file} takes {self.rows:,}, one for each "
                f"example of the official test set; give that as the task's test file, or fill the file "
                f"with: --fill {self.key}"
            )

    def filled(self) -> list[Written]:
        """A row of the filler for each answer that the file takes."""
        return [self.written(self.filler)] * self.rows


@dataclass(frozen=True)
class LabelForm(Form):
    """Labels.

    Attributes:
        names: the labels' names in the order of their ids, as on the hub; `a|b` are two names of one.
        words: what is written for each; by default its name.
    """

    names: tuple[str, ...] = ()
    words: tuple[Written, ...] = ()

    @property
    def values(self) -> tuple[Written, ...]:
        """What may stand in the file, in the order of the labels' ids."""
        return self.words or tuple(self._names)

    @property
    def _names(self) -> list[str]:
        return [names.split("|")[0] for names in self.names]

    def label_id(self, name: str) -> int:
        """The id of a label by its name, upper or lower case.

        Raises:
            ValueError: with what was expected.
        """
        wanted = name.strip().casefold()
        for number, names in enumerate(self.names):
            if wanted in names.casefold().split("|"):
                return number
        raise ValueError(f"one of {', '.join(self._names)}")

    def written(self, answer: Any) -> Written:
        """The word of a label, by its id, its name or, of a choice, (id, text)."""
        if isinstance(answer, tuple) and answer:
            answer = answer[0]
        number = self.label_id(answer) if isinstance(answer, str) else _whole(answer)
        if number is None or not 0 <= number < len(self.names):
            known = ", ".join(self._names)
            raise ValueError(f"a label's id, 0 to {len(self.names) - 1}, or its name: {known}")
        return self.values[number]

    def wrong(self, value: Any) -> str | None:
        """Expects one of the words."""
        # 1 == True, and a server that compares strings takes neither for the other
        if any(type(value) is type(word) and value == word for word in self.values):
            return None
        return " or ".join(repr(word) for word in self.values)


@dataclass(frozen=True)
class NumberForm(Form):
    """Numbers, kept inside a range, with three decimals."""

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
    """Texts."""

    def written(self, answer: Any) -> Written:
        """The text, which a choice brings as (id, text)."""
        if isinstance(answer, tuple) and answer:
            answer = answer[-1]
        if not isinstance(answer, str):
            raise ValueError("a text")
        return answer

    def wrong(self, value: Any) -> str | None:
        """Expects a text that is not empty."""
        return None if isinstance(value, str) and value.strip() else "a text"


def in_order(form: Form, predicted: Predicted, values: Iterable[Written]) -> list[Written]:
    """The values in the order of the ids 0 … n − 1.

    Raises:
        WeftError: the ids are others, or one is there twice.
    """
    if predicted.ids is None:
        return list(values)
    placed: dict[int, Written] = {}
    for given, value in zip(predicted.ids, values, strict=True):
        number = whole_id(form, given)
        if not 0 <= number < form.rows or number in placed:
            again = "is there twice" if number in placed else f"expected 0 to {form.rows - 1}"
            raise WeftError(f"task {form.key!r}: id {show(given)}: {again}; {form.file} has each id once")
        placed[number] = value
    return [placed[number] for number in range(form.rows)]


def whole_id(form: Form, given: Any) -> int:
    """An id as a whole number; of several columns, the last one is the example's own."""
    number = _whole(given[-1] if isinstance(given, tuple | list) and given else given)
    if number is None:
        raise WeftError(f"task {form.key!r}: id {show(given)}: expected a whole number")
    return number


def _whole(value: Any) -> int | None:
    try:
        return int(value) if isinstance(value, str) else operator.index(value)
    except (TypeError, ValueError):
        return None
