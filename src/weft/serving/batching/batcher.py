"""The batcher: questions of all clients in one queue, answered in batches by one thread or several.

An idle server answers at once: nothing waits for company. While a batch runs, further questions arrive, and
are tokenized by another thread when there are many. If more than one batch is waiting, up to eight batches
are taken from the queue together, sorted by length and cut, so that there is little padding. Questions are
taken in the order of their arrival, so that none waits forever.

A lane is a thread that runs batches. A GPU has one. On a CPU two batches on one core each are faster than one
batch on two cores, because the threads of a batch wait for each other after every operation.
"""

from __future__ import annotations

import math
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, TypeVar

from weft.serving.batching.answerer import Answerer, Observer, Started
from weft.serving.batching.ticket import Item, Ticket
from weft.serving.refused import Refused

if TYPE_CHECKING:
    from weft.serving.batching.worker import Worker
    from weft.serving.tasks.served_tasks import ServedTasks

WINDOW = 8
"""How many batches are taken from the queue together."""
SLAB = 256
"""How many questions are tokenized together, at most."""
WORTHWHILE = 32
"""How many questions must wait before they are tokenized, or started, beside a running batch. A call has a
fixed cost of about 0.3 ms; text by text, as they arrive, it would take most of Python's lock from the HTTP
server."""

T = TypeVar("T")


class Batcher(Answerer):
    """Answers tickets, with a queue, one thread per lane, and one that tokenizes.

    Args:
        worker: runs the model.
        served: the tasks.
        observer: is called by the threads of the lanes.
        queue: the most questions that may wait.
        wake: called with finished tickets; by default it calls the `finish` of each.
        lanes: how many batches run side by side.
        begin: called once by the thread of each lane, before its first batch.
    """

    def __init__(
        self,
        worker: Worker,
        served: ServedTasks,
        observer: Observer,
        queue: int = 4096,
        wake: Callable[[list[Ticket]], None] | None = None,
        lanes: int = 1,
        begin: Callable[[], None] = lambda: None,
    ) -> None:
        super().__init__(worker, served, observer, wake, lanes)
        self._queue, self._begin = queue, begin
        # one lock, and one condition per purpose: waking a thread for nothing takes Python's lock from others
        self._lock = threading.Lock()
        self._model_work = threading.Condition(self._lock)
        self._many_texts = threading.Condition(self._lock)
        self._raw: deque[Item] = deque()
        self._ready: deque[Item] = deque()
        self._commands: deque[tuple[Callable[[], Any], Future[Any]]] = deque()
        self._tokenizing = self._running = 0
        self._commanded = self._closing = False
        self._threads = [
            threading.Thread(target=self._run_lane, name=f"weft-model-{lane}", daemon=True)
            for lane in range(lanes)
        ]
        self._threads.append(threading.Thread(target=self._run_tokenizer, name="weft-tokenizer", daemon=True))
        for thread in self._threads:
            thread.start()

    @property
    def waiting(self) -> int:
        """How many questions wait for their batch."""
        return len(self._raw) + len(self._ready) + self._tokenizing

    def submit(self, ticket: Ticket, tokenized: list[Item] | None = None) -> None:
        """Put the questions of a ticket into the queue.

        Args:
            ticket: the ticket.
            tokenized: its items, if another process has tokenized them.

        Raises:
            Refused: the queue is full (429, with `Retry-After`), or the server is stopping (503).
        """
        items = tokenized or [
            Item(ticket, place, question) for place, question in enumerate(ticket.questions)
        ]
        with self._lock:
            if self._closing:
                raise Refused("not_ready", "the server is stopping; send the request to another one")
            if self.waiting + len(items) > self._queue:
                raise self._overloaded()
            (self._raw if tokenized is None else self._ready).extend(items)
            if self._running < self.lanes:
                self._model_work.notify()
            elif len(self._raw) >= WORTHWHILE:
                self._many_texts.notify()

    def forget(self, ticket: Ticket) -> None:
        """Drop the questions of a ticket whose client has left: they are not computed."""
        ticket.gone = True

    def between_batches(self, work: Callable[[], T]) -> Future[T]:
        """Run a function in the thread of a lane, while no batch runs."""
        result: Future[T] = Future()
        with self._lock:
            if self._closing:
                raise Refused("not_ready", "the server is stopping")
            self._commands.append((work, result))
            self._model_work.notify_all()
        return result

    def close(self, seconds: float = 60.0) -> None:
        """Answer what is waiting, then stop all threads; further tickets are refused."""
        with self._lock:
            self._closing = True
            self._model_work.notify_all()
            self._many_texts.notify()
        for thread in self._threads:
            thread.join(seconds)

    def _overloaded(self) -> Refused:
        seconds = max(1, math.ceil(self.waiting / self.rate)) if self.rate else 1
        return Refused(
            "overloaded",
            f"{self.waiting:,} texts are waiting, and at most {self._queue:,} may; try again in {seconds} s",
            headers={"Retry-After": str(seconds)},
        )

    def _run_tokenizer(self) -> None:
        """Tokenize what waits while all lanes are busy, if it is worthwhile."""
        while True:
            with self._lock:
                while not (self._running == self.lanes and len(self._raw) >= WORTHWHILE):
                    if self._closing:
                        return  # the lanes tokenize what is left
                    self._many_texts.wait()
                items = [self._raw.popleft() for _ in range(min(len(self._raw), SLAB))]
                self._tokenizing = len(items)
            try:
                items = self.prepared(items)
            except Exception as error:
                self.give_up(items, error)
                items = []
            with self._lock:
                self._tokenizing = 0
                self._ready.extend(items)
                self._model_work.notify_all()

    def _run_lane(self) -> None:
        try:
            self._begin()
        except Exception as error:
            self.give_up([], error)
        started: Started | None = None  # the last batch, if it may still run on a GPU
        while True:
            with self._lock:
                while not (started or self._may_answer or self._may_command):
                    if self._closing and not (self.waiting or self._commands):
                        return
                    self._model_work.wait()
                command = None
                if self._may_command and started is None:
                    command, self._commanded = self._commands.popleft(), True
                # with few texts waiting, nothing is gained by starting them before the last answers are sent
                few = len(self._ready) + len(self._raw) < WORTHWHILE
                window = self._window() if self._may_answer and not (started and few) else []
                self._running += 1
                if len(self._raw) >= WORTHWHILE and self._running == self.lanes:
                    self._many_texts.notify()
                elif self._may_answer:
                    self._model_work.notify()  # a free lane takes what is left
            try:
                if window:
                    started = self.answer(window, started)
                elif started is not None:
                    self.finish(started)
                    started = None
                elif command is not None:
                    _run(*command)
            except Exception as error:
                self.give_up([*window, *(started.batch.items if started else ())], error)
                started = None
            with self._lock:
                self._running -= 1
                if command is not None:
                    self._commanded = False
                if command is not None or self._commands or self._closing:
                    self._model_work.notify_all()

    @property
    def _may_answer(self) -> bool:
        return bool(self._ready or self._raw) and not (self._commands or self._commanded)

    @property
    def _may_command(self) -> bool:
        return bool(self._commands) and not self._running

    def _window(self) -> list[Item]:
        """Take up to eight batches, in the order of arrival: what is tokenized first.

        Several lanes share what waits: those that are free take equal parts; if the others are busy, the one
        that is free takes its part, but no less than a batch.
        """
        count, free = len(self._ready) + len(self._raw), self.lanes - self._running
        part = math.ceil(count / (free if free > 1 else self.lanes))
        least = 0 if free > 1 else self.worker.tokens
        most, size = WINDOW * self.worker.tokens, 0
        window: list[Item] = []
        for source in (self._ready, self._raw):
            # what is tokenized by now fills a batch: the rest is tokenized while that batch runs
            if source is self._raw and size >= self.worker.tokens:
                break
            while source and size < most and (len(window) < part or size < least):
                window.append(source.popleft())
                size += _size(window[-1])
        return window


def _size(item: Item) -> int:
    try:
        return item.size
    except Exception:  # what is wrong with it fails its request, when it is answered
        return 0


def _run(work: Callable[[], Any], result: Future[Any]) -> None:
    try:
        result.set_result(work())
    except BaseException as wrong:
        result.set_exception(wrong)
