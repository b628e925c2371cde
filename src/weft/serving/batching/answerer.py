"""Answers questions that are waiting: tokenizes them, runs their batches and delivers the answers."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from weft.serving.batching.ticket import Item, Ticket
from weft.serving.questions.predict_questions import again
from weft.serving.questions.question import Embed
from weft.serving.refused import Refused
from weft.serving.request_log import log_error

if TYPE_CHECKING:
    from weft.serving.batching.worker import Batch, Worker
    from weft.serving.tasks.served_tasks import ServedTasks


class Observer(Protocol):
    """What the batcher reports."""

    def batch(self, batch: Batch, seconds: float) -> None:
        """A batch was answered."""

    def failure(self, error: BaseException, items: Sequence[Item]) -> None:
        """Questions failed by an error that is not the client's."""


class Started(NamedTuple):
    """A batch that runs, or has run.

    Attributes:
        batch: the batch.
        logits: what the worker returned for it.
        at: when it was started.
    """

    batch: Batch
    logits: Any
    at: float


class Answerer:
    """Answers questions, a window of them at a time.

    Args:
        worker: runs the model.
        served: the tasks.
        observer: is called by the threads that answer.
        wake: called with finished tickets; by default it calls the `finish` of each.
        lanes: how many threads call `answer`, each for windows of its own.

    Attributes:
        worker: as above; it may be replaced while no window is answered, and so may `served`.
        served: as above.
        wake: as above.
        lanes: as above.
        rate: questions per second, a moving average over the last windows; 0 before the first.
    """

    def __init__(
        self,
        worker: Worker,
        served: ServedTasks,
        observer: Observer,
        wake: Callable[[list[Ticket]], None] | None = None,
        lanes: int = 1,
    ) -> None:
        self.lanes = lanes
        self.worker, self.served, self._observer = worker, served, observer
        self.wake = wake or _finish_each
        self.rate = 0.0

    def prepared(self, items: list[Item]) -> list[Item]:
        """Drop questions that nobody waits for, read those again whose task was replaced, and tokenize.

        A question that fails takes its whole request with it, but no other request.
        """
        served, now = self.served, time.monotonic()
        current, failed = [], []
        for item in items:
            ticket = item.ticket
            if ticket.gone:
                continue
            try:
                if now > ticket.deadline:
                    raise Refused("deadline", "the request waited longer than its deadline")
                question = item.question
                if isinstance(question, Embed):
                    if question.task is not None:
                        served.id_of(question.task, "task")
                elif question.version != served.version_of(question):
                    item.question, item.tokens = again(question, served), None
                current.append(item)
            except Refused as wrong:
                if ticket.fail(wrong):
                    failed.append(ticket)
            except Exception as error:
                self._failed([item], error)
        if failed:
            self.wake(failed)
        try:
            self.worker.tokenize(current)
        except Exception:
            current = self._tokenized_alone(current)
        return current

    def _tokenized_alone(self, items: list[Item]) -> list[Item]:
        """Tokenize each question by itself, so that one that cannot be tokenized fails alone."""
        kept = []
        for item in items:
            try:
                self.worker.tokenize([item])
                kept.append(item)
            except Exception as error:
                self._failed([item], error)
        return kept

    def answer(self, window: list[Item], before: Started | None) -> Started | None:
        """Answer the questions of a window; on a GPU one batch is decoded while the next one runs.

        Args:
            window: the questions.
            before: the last batch of the window before, if it has not been decoded.

        Returns:
            The last batch of this one, if it has not been decoded: it may run while the next window is read.
        """
        began = time.monotonic()
        window = self.prepared(window)
        for batch in self.worker.batches(window):
            # clients may have left while the batches before ran
            if all(item.ticket.gone for item in batch.items):
                continue
            started = self._start(batch)
            if before is not None:
                self.finish(before)
            before = started
            if before is not None and not self.worker.waits:
                self.finish(before)
                before = None
        if window:
            rate = self.lanes * len(window) / max(time.monotonic() - began, 1e-6)
            self.rate = rate if not self.rate else 0.9 * self.rate + 0.1 * rate
        return before

    def _start(self, batch: Batch) -> Started | None:
        at = time.monotonic()
        try:
            return Started(batch, self.worker.start(batch), at)
        except Exception as error:
            self._answer_alone(batch, error)
            return None

    def finish(self, started: Started) -> None:
        """Wait for a batch and deliver its answers."""
        batch = started.batch
        try:
            answers = self.worker.finish(batch, started.logits)
        except Exception as error:
            self._answer_alone(batch, error)
            return
        # counted first: whoever has an answer finds it in the metrics
        self._observer.batch(batch, time.monotonic() - started.at)
        self._deliver(batch, answers)

    def _answer_alone(self, batch: Batch, error: Exception) -> None:
        """Answer each question of a failed batch by itself, so that only those that cause the error fail."""
        if len(batch.items) == 1:
            self._failed(batch.items, error)
            return
        for item in batch.items:
            at = time.monotonic()
            try:
                (alone,) = self.worker.batches([item])
                answers = self.worker.finish(alone, self.worker.start(alone))
            except Exception as wrong:
                self._failed([item], wrong)
            else:
                self._observer.batch(alone, time.monotonic() - at)
                self._deliver(alone, answers)

    def _deliver(self, batch: Batch, answers: Sequence[Any]) -> None:
        finished = []
        for item, answer in zip(batch.items, answers, strict=True):
            identity = getattr(item.question, "id", None)
            complete = answer if identity is None else {"id": identity, **answer}
            if item.ticket.answer(item.position, complete, self.served.sha256):
                finished.append(item.ticket)
        if finished:
            self.wake(finished)

    def give_up(self, items: Sequence[Item], error: Exception) -> None:
        """Fail the requests of some questions by an error that nothing else has handled; raises none itself.

        Without this the thread would end, and every request after it would wait until its deadline.
        """
        try:
            self._observer.failure(error, items)
        except Exception as second:
            log_error("failure", error, texts=len(items))
            log_error("failure", second)
        failed = [item.ticket for item in items if item.ticket.fail(_failure())]
        with suppress(Exception):  # this was the error, perhaps
            self.wake(failed)

    def _failed(self, items: Sequence[Item], error: Exception) -> None:
        """Fail the requests of some questions by an error of the server; its text is logged, not sent."""
        self._observer.failure(error, items)
        failed = [item.ticket for item in items if item.ticket.fail(_failure())]
        if failed:
            self.wake(failed)


def _failure() -> Refused:
    return Refused("failed", "the model could not answer this request; the server's log has the error")


def _finish_each(tickets: list[Ticket]) -> None:
    for ticket in tickets:
        ticket.finish()
