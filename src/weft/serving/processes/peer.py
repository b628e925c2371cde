"""An HTTP process, as the model's process sees it."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from weft.serving.batching.ticket import Ticket
from weft.serving.engine import Engine
from weft.serving.processes.channel import Channel
from weft.serving.processes.errors import as_tuple, failed, refused_fields
from weft.serving.processes.portion import Portion, unpacked
from weft.serving.refused import Refused
from weft.serving.request_log import log_error
from weft.serving.settings import ServeSettings

ONE_THREAD = {"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
"""Variables of HTTP processes: there are several of them, and each tokenizes a few texts at a time."""


class PeerTicket(Ticket):
    """A request of an HTTP process.

    Args:
        questions: as in `Ticket`.
        seconds: as in `Ticket`.
        number: its number in the HTTP process.
        peer: the HTTP process.
    """

    __slots__ = ("peer",)

    def __init__(self, questions: Sequence[Any], seconds: float, number: int, peer: Peer) -> None:
        super().__init__(questions, seconds, lambda: None)
        self.number, self.peer = number, peer


class Owner(Protocol):
    """What a peer needs of the model's process."""

    engine: Engine

    def called(self, peer: Peer, number: int, name: str, arguments: tuple[Any, ...]) -> None:
        """A peer calls a function."""

    def ended(self, peer: Peer) -> None:
        """A peer has ended."""


class Peer:
    """An HTTP process.

    Args:
        owner: the model's process.
        settings: the settings of the server.
        listener: the port that all HTTP processes share.

    Attributes:
        process: the process.
        began: when it was started.
        ready: whether it accepts requests.
        gone: whether it has ended, or is about to; nothing more comes from it.
        seen: the newest version of the table of tasks that it knows.
        metrics: the number and the text of the last metrics that it sent.
    """

    def __init__(self, owner: Owner, settings: ServeSettings, listener: socket.socket) -> None:
        self._owner = owner
        self._tickets: dict[int, PeerTicket] = {}
        self.began, self.ready, self.gone = time.monotonic(), False, False
        self.seen = -1
        self.metrics: tuple[int, str] = (0, "")
        here, there = multiprocessing.Pipe()
        descriptors = (listener.fileno(), there.fileno())
        self.process = subprocess.Popen(
            [sys.executable, "-m", "weft.serving.processes.http_process", *map(str, descriptors)],
            pass_fds=descriptors,
            env={**os.environ, **ONE_THREAD},
            # signals of the terminal go to the model's process alone, which stops the others in order
            start_new_session=True,
        )
        there.close()
        here.send_bytes(pickle.dumps(settings))
        handlers: dict[str, Callable[..., None]] = {
            "ready": self._ready,
            "questions": self._questions,
            "gone": self._gone,
            "call": lambda number, name, arguments: owner.called(self, number, name, arguments),
            "seen": self._seen,
            "metrics": self._metrics,
        }
        self._channel = Channel(here, handlers, self._ended, self._unsent)
        self._channel.start()

    def send(self, name: str, *arguments: Any) -> None:
        """Send a message."""
        self._channel.send(name, *arguments)

    def deliver(self, tickets: Sequence[PeerTicket]) -> None:
        """Send the answers of tickets, or why there are none."""
        answered: list[tuple[int, list[Any], str, tuple[Any, ...] | None]] = []
        for ticket in tickets:
            self._tickets.pop(ticket.number, None)
            if ticket.error is None:
                answered.append((ticket.number, ticket.answers, ticket.sha256, None))
            else:
                answered.append((ticket.number, [], "", refused_fields(ticket.error)))
        self._channel.send("answers", answered)

    def drop(self) -> None:
        """Nobody waits for its requests any more; close the channel."""
        for ticket in list(self._tickets.values()):
            ticket.gone = True
        self._tickets.clear()
        self._channel.close()

    def _ended(self) -> None:
        self.gone = True
        self._owner.ended(self)

    def _unsent(self, name: str, arguments: Sequence[Any], error: Exception) -> None:
        """A message cannot be sent: its requests fail; if it is for none, the process is replaced."""
        if name == "result" and arguments[2] is None:
            log_error("failure", error)
            self.send("result", arguments[0], None, as_tuple(error))
        elif name == "answers" and len(arguments[0]) > 1:
            for answered in arguments[0]:
                self.send("answers", [answered])
        elif name == "answers" and arguments[0][0][3] is None:
            log_error("failure", error)
            self._refuse([arguments[0][0][0]])
        else:
            raise error

    def _ready(self) -> None:
        self.ready = True

    def _questions(self, portion: Portion) -> None:
        batcher = self._owner.engine.queue
        try:
            requests = unpacked(portion, batcher.served, self._ticket)
        except Exception as error:
            log_error("failure", error, texts=len(portion.questions))
            self._refuse([number for number, *_ in portion.tickets])
            return
        refused = []
        for ticket, items in requests:
            try:
                batcher.submit(ticket, items)
            except Exception as wrong:
                if not isinstance(wrong, Refused):
                    log_error("failure", wrong, texts=len(items))
                ticket.fail(wrong if isinstance(wrong, Refused) else failed())
                refused.append(ticket)
        if refused:
            self.deliver(refused)  # type: ignore[arg-type]

    def _refuse(self, numbers: Sequence[int]) -> None:
        """Fail requests by an error of the server, whether they are known here or not."""
        for number in numbers:
            self._tickets.pop(number, None)
        self.send("answers", [(number, [], "", refused_fields(failed())) for number in numbers])

    def _ticket(self, number: int, questions: list[Any], seconds: float) -> PeerTicket:
        ticket = self._tickets[number] = PeerTicket(questions, seconds, number, self)
        return ticket

    def _gone(self, number: int) -> None:
        ticket = self._tickets.pop(number, None)
        if ticket is not None:
            ticket.gone = True

    def _seen(self, version: int) -> None:
        self.seen = version

    def _metrics(self, number: int, text: bytes) -> None:
        self.metrics = number, text.decode()
