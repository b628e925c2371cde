"""The engine of an HTTP process: what the application needs, answered by the model's process."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from itertools import count
from typing import TYPE_CHECKING, Any

from weft.errors import RunFailed
from weft.serving.processes.channel import Channel
from weft.serving.processes.errors import as_error, as_tuple
from weft.serving.processes.portion import Reader
from weft.serving.processes.remote_queue import RemoteQueue
from weft.serving.refused import Refused
from weft.serving.request_log import log_error

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

    from transformers import PreTrainedTokenizerBase

    from weft.serving.batching.ticket import Ticket
    from weft.serving.interface import State
    from weft.serving.settings import ServeSettings
    from weft.serving.tasks.served_tasks import ServedTasks

CHANGE = 600.0
"""The most seconds that changing a task may take: the model may have to be loaded again."""


class HttpEngine:
    """As `weft.serving.engine.Engine`, but the model is in another process.

    Args:
        connection: to the model's process.
        settings: the settings of the server.
        metrics: returns the metrics of this process, as text.

    Attributes:
        state: as in `Engine`.
        error: as in `Engine`.
        batcher: the way to the model's process; None until that one is ready.
        on_end: called if the model's process is gone.
    """

    def __init__(
        self, connection: Connection[Any, Any], settings: ServeSettings, metrics: Callable[[], bytes]
    ) -> None:
        self._settings, self._metrics = settings, metrics
        self.state: State = "loading"
        self.error: BaseException | None = None
        self.batcher: RemoteQueue | None = None
        self.on_end: Callable[[], None] = lambda: None
        self._loaded = threading.Event()
        self._calls: dict[int, Future[Any]] = {}
        self._numbers = count(1)
        self._has_ended = False
        handlers: dict[str, Callable[..., None]] = {
            "ready": self._ready,
            "answers": lambda answered: self.queue.finish(answered),
            "table": self._table,
            "result": self._result,
            "metrics": self._send_metrics,
        }
        self._channel = Channel(connection, handlers, self._ended, self._unsent)

    @property
    def queue(self) -> RemoteQueue:
        """The queue of an engine that is ready."""
        assert self.batcher is not None
        return self.batcher

    @property
    def served(self) -> ServedTasks:
        """The tasks that are served now."""
        return self.queue.served

    def load_logged(self, wake: Callable[[list[Ticket]], None]) -> None:
        """Wait until the model's process is ready, then accept requests; that process writes to the log.

        Args:
            wake: called with finished tickets.
        """
        self._channel.start()
        self._loaded.wait()
        if self.error is not None:
            return
        self.queue.wake = wake
        self._channel.send("ready")
        if self.state == "loading":
            self.state = "ready"

    def put_task(self, name: str, contents: bytes) -> bool:
        """Add or replace a task in the model's process; every HTTP process knows it when this returns."""
        reloaded: bool = self.call("put_task", name, contents)
        return reloaded

    def remove_task(self, name: str) -> None:
        """Remove a task in the model's process; every HTTP process knows it when this returns."""
        self.call("remove_task", name)

    def call(self, name: str, *arguments: Any) -> Any:
        """Call a function of the model's process and wait for its result; its errors are raised here."""
        number, result = next(self._numbers), Future[Any]()
        self._calls[number] = result
        try:
            if self._has_ended:  # looked at after the call is known: `_ended` fails those that it finds
                raise _stopped()
            self._channel.send("call", number, name, arguments)
            return result.result(CHANGE)
        finally:
            self._calls.pop(number, None)

    def close(self) -> None:
        """Close the channel; every request has been answered by now."""
        self.state = "stopping"
        if self.batcher is not None:
            self.batcher.close()
        self._channel.close()

    def _ready(self, served: ServedTasks, tokenizer: PreTrainedTokenizerBase, max_length: int) -> None:
        reader = Reader(served.tasks, tokenizer, max_length)
        self.batcher = RemoteQueue(self._channel, served, reader, self._settings.queue)
        self._loaded.set()

    def _send_metrics(self, number: int) -> None:
        text = b""
        try:
            text = self._metrics()
        except Exception as error:  # others are not made to wait for this process
            log_error("failure", error)
        self._channel.send("metrics", number, text)

    def _table(self, served: ServedTasks) -> None:
        if self.batcher is not None:
            self.batcher.replace_tasks(served)
        self._channel.send("seen", served.version)

    def _result(self, number: int, value: Any, error: tuple[Any, ...] | None) -> None:
        waiting = self._calls.get(number)
        if waiting is not None and error is None:
            waiting.set_result(value)
        elif waiting is not None and error is not None:
            waiting.set_exception(as_error(error))

    def _unsent(self, name: str, arguments: Sequence[Any], error: Exception) -> None:
        """A message cannot be sent: its requests fail; if it is for none, this process ends."""
        if name == "questions":
            self.queue.unsent(arguments[0], error)
        elif name == "call":
            log_error("failure", error)
            self._result(arguments[0], None, as_tuple(error))
        else:
            raise error

    def _ended(self) -> None:
        self._has_ended = True
        if self.state == "stopping":
            return
        self.state, self.error = "failed", RunFailed("the model's process has ended")
        self._loaded.set()
        for waiting in list(self._calls.values()):
            with suppress(InvalidStateError):  # it has its result, which is about to be read
                waiting.set_exception(_stopped())
        if self.batcher is not None:
            self.batcher.fail_all(_stopped())
        self.on_end()


def _stopped() -> Refused:
    return Refused("not_ready", "the server has stopped")
