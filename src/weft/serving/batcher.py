"""The batcher: questions of all clients in one queue, answered in batches by one thread.

An idle server answers at once: nothing waits for company. While a batch runs, further questions arrive, and
are tokenized by a second thread when there are many. If more than one batch is waiting, up to eight batches
are taken from the queue together, sorted by length and cut, so that there is little padding. Questions are
taken in the order of their arrival, so that none waits forever.
"""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

from weft.serving.questions import Embed, again
from weft.serving.refused import Refused
from weft.serving.ticket import Item, Ticket

if TYPE_CHECKING:
    from weft.serving.served_tasks import ServedTasks
    from weft.serving.worker import Batch, Worker

WINDOW = 8
"""How many batches are taken from the queue together."""
SLAB = 256
"""How many questions are tokenized together, at most."""
WORTHWHILE = 32
"""How many questions must wait before they are tokenized beside a running batch. A call has a fixed cost of
about 0.3 ms; text by text, as they arrive, it would take most of Python's lock from the HTTP server."""

T = TypeVar("T")


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


class Batcher:
    """Answers tickets.

    Args:
        worker: runs the model.
        served: the tasks.
        observer: is called by the model's thread.
        queue: the most questions that may wait.
        wake: called with finished tickets; by default it calls the `finish` of each.
    """

    def __init__(
        self,
        worker: Worker,
        served: ServedTasks,
        observer: Observer,
        queue: int = 4096,
        wake: Callable[[list[Ticket]], None] | None = None,
    ) -> None:
        self.worker, self.served = worker, served
        self._observer, self._queue = observer, queue
        self.wake = wake or _finish_each
        # one lock, and one condition per thread: waking a thread for nothing takes Python's lock from others
        self._lock = threading.Lock()
        self._model_work = threading.Condition(self._lock)
        self._many_texts = threading.Condition(self._lock)
        self._raw: deque[Item] = deque()
        self._ready: deque[Item] = deque()
        self._commands: deque[tuple[Callable[[], Any], Future[Any]]] = deque()
        self._tokenizing = 0
        self._busy = self._closing = False
        self._rate = 0.0
        self._threads = [
            threading.Thread(target=self._run_model, name="weft-model", daemon=True),
            threading.Thread(target=self._run_tokenizer, name="weft-tokenizer", daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    @property
    def waiting(self) -> int:
        """How many questions wait for their batch."""
        return len(self._raw) + len(self._ready) + self._tokenizing

    @property
    def rate(self) -> float:
        """Questions per second, a moving average over the last windows; 0 before the first."""
        return self._rate

    def submit(self, ticket: Ticket) -> None:
        """Put the questions of a ticket into the queue.

        Raises:
            Refused: the queue is full (429, with `Retry-After`), or the server is stopping (503).
        """
        items = [Item(ticket, position, question) for position, question in enumerate(ticket.questions)]
        with self._lock:
            if self._closing:
                raise Refused("not_ready", "the server is stopping; send the request to another one")
            if self.waiting + len(items) > self._queue:
                raise self._overloaded()
            self._raw.extend(items)
            if not self._busy:
                self._model_work.notify()
            elif len(self._raw) >= WORTHWHILE:
                self._many_texts.notify()

    def between_batches(self, work: Callable[[], T]) -> Future[T]:
        """Run a function in the model's thread, while no batch runs."""
        result: Future[T] = Future()
        with self._lock:
            if self._closing:
                raise Refused("not_ready", "the server is stopping")
            self._commands.append((work, result))
            self._model_work.notify()
        return result

    def close(self, seconds: float = 60.0) -> None:
        """Answer what is waiting, then stop both threads; further tickets are refused."""
        with self._lock:
            self._closing = True
            self._model_work.notify()
            self._many_texts.notify()
        for thread in self._threads:
            thread.join(seconds)

    def _overloaded(self) -> Refused:
        seconds = max(1, math.ceil(self.waiting / self._rate)) if self._rate else 1
        return Refused(
            "overloaded",
            f"{self.waiting:,} texts are waiting, and at most {self._queue:,} may; try again in {seconds} s",
            headers={"Retry-After": str(seconds)},
        )

    def _run_tokenizer(self) -> None:
        """Tokenize what waits while the model is busy, if it is worthwhile."""
        while True:
            with self._lock:
                while not (self._busy and len(self._raw) >= WORTHWHILE):
                    if self._closing:
                        return  # the model's thread tokenizes what is left
                    self._many_texts.wait()
                items = [self._raw.popleft() for _ in range(min(len(self._raw), SLAB))]
                self._tokenizing = len(items)
            items = self._prepared(items)
            with self._lock:
                self._tokenizing = 0
                self._ready.extend(items)
                self._model_work.notify()

    def _run_model(self) -> None:
        started: Started | None = None  # the last batch, if it may still run on a GPU
        while True:
            with self._lock:
                self._busy = started is not None
                while not (self._ready or self._raw or self._commands or started):
                    if self._closing and not self._tokenizing:
                        return
                    self._model_work.wait()
                command = self._commands.popleft() if self._commands else None
                window = [] if command else self._window()
                self._busy = True
                if len(self._raw) >= WORTHWHILE:
                    self._many_texts.notify()
            if window:
                started = self._answer(window, started)
                continue
            if started is not None:
                self._finish(started)
                started = None
            if command is not None:
                _run(*command)

    def _window(self) -> list[Item]:
        """Take up to eight batches, in the order of arrival: what is tokenized first."""
        most, size = WINDOW * self.worker.tokens, 0
        window: list[Item] = []
        for source in (self._ready, self._raw):
            # what is tokenized by now fills a batch: the rest is tokenized while that batch runs
            if source is self._raw and size >= self.worker.tokens:
                break
            while source and size < most:
                window.append(source.popleft())
                size += window[-1].size
        return window

    def _prepared(self, items: list[Item]) -> list[Item]:
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

    def _answer(self, window: list[Item], before: Started | None) -> Started | None:
        """Answer the questions of a window; on a GPU one batch is decoded while the next one runs.

        Args:
            window: the questions.
            before: the last batch of the window before, if it has not been decoded.

        Returns:
            The last batch of this one, if it has not been decoded: it may run while the next window is read.
        """
        began = time.monotonic()
        window = self._prepared(window)
        for batch in self.worker.batches(window):
            # clients may have left while the batches before ran
            if all(item.ticket.gone for item in batch.items):
                continue
            started = self._start(batch)
            if before is not None:
                self._finish(before)
            before = started
            if before is not None and not self.worker.waits:
                self._finish(before)
                before = None
        if window:
            rate = len(window) / max(time.monotonic() - began, 1e-6)
            self._rate = rate if not self._rate else 0.9 * self._rate + 0.1 * rate
        return before

    def _start(self, batch: Batch) -> Started | None:
        at = time.monotonic()
        try:
            return Started(batch, self.worker.start(batch), at)
        except Exception as error:
            self._answer_alone(batch, error)
            return None

    def _finish(self, started: Started) -> None:
        batch = started.batch
        try:
            answers = self.worker.finish(batch, started.logits)
        except Exception as error:
            self._answer_alone(batch, error)
            return
        self._deliver(batch, answers)
        self._observer.batch(batch, time.monotonic() - started.at)

    def _answer_alone(self, batch: Batch, error: Exception) -> None:
        """Answer each question of a failed batch by itself, so that only those that cause the error fail."""
        if len(batch.items) == 1:
            self._failed(batch.items, error)
            return
        for alone in (alone for item in batch.items for alone in self.worker.batches([item])):
            at = time.monotonic()
            try:
                answers = self.worker.finish(alone, self.worker.start(alone))
            except Exception as wrong:
                self._failed(alone.items, wrong)
            else:
                self._deliver(alone, answers)
                self._observer.batch(alone, time.monotonic() - at)

    def _deliver(self, batch: Batch, answers: Sequence[Any]) -> None:
        finished = []
        for item, answer in zip(batch.items, answers, strict=True):
            identity = getattr(item.question, "id", None)
            complete = answer if identity is None else {"id": identity, **answer}
            if item.ticket.answer(item.position, complete, self.served.sha256):
                finished.append(item.ticket)
        if finished:
            self.wake(finished)

    def _failed(self, items: Sequence[Item], error: Exception) -> None:
        """Fail the requests of some questions by an error of the server; its text is logged, not sent."""
        self._observer.failure(error, items)
        refused = Refused("failed", "the model could not answer this request; the server's log has the error")
        failed = [item.ticket for item in items if item.ticket.fail(refused)]
        if failed:
            self.wake(failed)


def _run(work: Callable[[], Any], result: Future[Any]) -> None:
    try:
        result.set_result(work())
    except BaseException as wrong:
        result.set_exception(wrong)


def _finish_each(tickets: list[Ticket]) -> None:
    for ticket in tickets:
        ticket.finish()
