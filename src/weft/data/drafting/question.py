"""Question: a guess that the data does not settle, and how a user may answer it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from weft.errors import WeftError, did_you_mean

About = Literal["texts", "label", "kind"]


@dataclass(frozen=True)
class Question:
    """A question about a task.

    Attributes:
        task: the task's name.
        about: the run-file key: `texts`, `label` or `kind`.
        guess: the guess; two text columns are separated by a comma.
        others: further candidates, the best first.
        known: all answers that are possible; of `texts` and `label` the columns of the file.
        reason: why the guess is not certain.
    """

    task: str
    about: About
    guess: str
    others: tuple[str, ...]
    known: tuple[str, ...]
    reason: str

    def read(self, answer: str) -> tuple[str, ...]:
        """Return the columns or the kind of an answer; an empty answer is the guess.

        Raises:
            WeftError: a word is not among `known`.
        """
        text = answer.strip() or self.guess
        # a column's name may contain a comma
        words = [text] if text in self.known else [word.strip() for word in text.split(",") if word.strip()]
        for word in words:
            if word not in self.known:
                raise WeftError(
                    f"task {self.task!r}: {self.about}: found {word!r}; {did_you_mean(word, self.known)}"
                )
        if self.about == "kind" and len(words) > 1:
            raise WeftError(f"task {self.task!r}: kind: expected one word; found {answer!r}")
        return tuple(words)


Choose = Callable[[Question], str]
"""Answers a question, such as by asking on a terminal."""


def take_guess(question: Question) -> str:
    """Answer with the guess."""
    return question.guess
