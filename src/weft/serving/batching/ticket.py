"""A ticket: the questions of one HTTP request while they wait for their answers."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from weft.serving.refused import Refused

if TYPE_CHECKING:
    from weft.data.tokens.tokens import Tokens
    from weft.serving.questions.question import Question


class Ticket:
    """The questions of one HTTP request, and their answers as far as they are there.

    The model's threads write answers; the thread of the HTTP server waits for the last of them.

    Args:
        questions: the questions.
        seconds: how long they may wait.
        done: called once, by a thread of the model, when every question has an answer or one has failed.

    Attributes:
        answers: the answer to each question; None until it is there.
        error: why the request failed; None unless it did.
        gone: whether nobody waits any more: the client has left, or the request has failed.
        deadline: when it fails, in the time of `time.monotonic`.
        sha256: the hash of the bundle that answered it.
        number: its number, if it is answered by another process.
    """

    __slots__ = (
        "_done",
        "_left",
        "_lock",
        "answers",
        "deadline",
        "error",
        "gone",
        "number",
        "questions",
        "sha256",
    )

    def __init__(self, questions: Sequence[Question], seconds: float, done: Callable[[], None]) -> None:
        self.questions = questions
        self.answers: list[Any] = [None] * len(questions)
        self.error: Refused | None = None
        self.gone = False
        self.deadline = time.monotonic() + seconds
        self.sha256, self.number = "", 0
        self._left, self._done = len(questions), done
        self._lock = threading.Lock()

    def answer(self, position: int, answer: Any, sha256: str) -> bool:
        """Store an answer; returns whether it was the last one. The caller then calls `finish`."""
        self.answers[position] = answer
        self.sha256 = sha256
        with self._lock:  # two batches that run side by side may have questions of one request
            self._left -= 1
            return self._left == 0 and not self.gone

    def answer_all(self, answers: list[Any], sha256: str) -> bool:
        """Store the answers to all questions; returns whether the request is still waiting for them."""
        self.answers, self.sha256, self._left = answers, sha256, 0
        return not self.gone

    def fail(self, error: Refused) -> bool:
        """Give up the whole request; returns whether it was still waiting. The caller then calls `finish`."""
        with self._lock:
            if self.gone or self._left == 0:
                return False
            self.gone, self.error = True, error
            return True

    def finish(self) -> None:
        """Wake the thread that waits."""
        self._done()


class Item:
    """One question in the queue.

    Attributes:
        ticket: its request.
        position: its number in the request.
        question: the question.
        tokens: its tokens, once it is tokenized; those of several questions share one object.
        example: the number of the question in these tokens.
    """

    __slots__ = ("example", "position", "question", "ticket", "tokens")

    def __init__(self, ticket: Ticket, position: int, question: Question) -> None:
        self.ticket, self.position, self.question = ticket, position, question
        self.tokens: Tokens | None = None
        self.example = 0

    @property
    def size(self) -> int:
        """About how many token positions it needs: exactly if it is tokenized, else from its characters."""
        if self.tokens is not None:
            return int(self.tokens.lengths[self.example] * self.tokens.row_counts[self.example])
        inputs = getattr(self.question, "inputs", None)
        if isinstance(inputs, dict):
            return sum(_guess(each.texts) for each in inputs.values())
        return _guess(inputs.texts) if inputs is not None else 32


def _guess(texts: Sequence[str]) -> int:
    """About how many tokens texts have: one per four characters."""
    return 3 + sum(map(len, texts)) // 4
