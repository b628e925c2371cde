"""The queue of an HTTP process: tokenizes questions and sends them to the model's process."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import count
from typing import TYPE_CHECKING, Any

from weft.serving.batching.ticket import Ticket
from weft.serving.processes.errors import failed
from weft.serving.processes.portion import Portion, Reader, packed
from weft.serving.refused import Refused
from weft.serving.request_log import log_error

if TYPE_CHECKING:
    from weft.serving.processes.channel import Channel
    from weft.serving.tasks.served_tasks import ServedTasks

PORTION = 256
"""How many questions are sent together, at most."""


class RemoteQueue:
    """Sends tickets to the model's process, in portions.

    An idle queue sends a ticket at once. While one portion is tokenized, further tickets arrive, and the next
    portion has all of them. So there is no delay at low load, and few calls at high load.

    Args:
        channel: to the model's process.
        served: the tasks.
        reader: the tokenizer.
        most: the most questions that may wait here; the model's process has a limit for all of them.

    Attributes:
        served: as above; `replace_tasks` sets it.
        wake: called with finished tickets, by the thread that receives.
        rate: always 0; the model's process measures it.
    """

    rate = 0.0

    def __init__(self, channel: Channel, served: ServedTasks, reader: Reader, most: int) -> None:
        self._channel, self._most = channel, most
        self.served = served
        self._tasks = served, reader  # together, because the tokenizer's thread needs equal ones
        self.wake: Callable[[list[Ticket]], None] = lambda tickets: None
        self._numbers = count(1)
        self._unsent: deque[Ticket] = deque()
        self._sent: dict[int, Ticket] = {}
        self.waiting = 0
        self._closing = False
        self._ended: Refused | None = None  # the error of `fail_all`
        self._work = threading.Condition()
        self._thread = threading.Thread(target=self._run, name="weft-tokenizer", daemon=True)
        self._thread.start()

    def submit(self, ticket: Ticket) -> None:
        """Send a ticket soon.

        Raises:
            Refused: too many questions are waiting (429), or the server is stopping (503).
        """
        with self._work:
            if self._closing:
                raise Refused("not_ready", "the server is stopping; send the request to another one")
            if self.waiting + len(ticket.questions) > self._most:
                raise Refused(
                    "overloaded",
                    f"{self.waiting:,} texts are waiting, and at most {self._most:,} may; try again in 1 s",
                    headers={"Retry-After": "1"},
                )
            ticket.number = next(self._numbers)
            self._unsent.append(ticket)
            self.waiting += len(ticket.questions)
            self._work.notify()

    def forget(self, ticket: Ticket) -> None:
        """Drop the questions of a ticket whose client has left, here and in the model's process."""
        ticket.gone = True
        if self._sent.pop(ticket.number, None) is not None:
            self._channel.send("gone", ticket.number)

    def replace_tasks(self, served: ServedTasks) -> None:
        """Read and tokenize for these tasks from now on."""
        _, reader = self._tasks
        self._tasks = served, replace(reader, tasks=served.tasks)
        self.served = served

    def finish(self, answered: Sequence[tuple[int, list[Any], str, tuple[Any, ...] | None]]) -> None:
        """Take answers, or why there are none, from the model's process.

        Args:
            answered: the number of each ticket, its answers, the hash of the bundle that gave them, and None;
                or, in the place of None, the arguments of a `Refused`.
        """
        finished = []
        for number, answers, sha256, refused in answered:
            ticket = self._sent.pop(number, None)
            if ticket is None:
                continue  # the client has left
            if refused is not None:
                still = ticket.fail(Refused(*refused))
            else:
                still = ticket.answer_all(answers, sha256)
            if still:
                finished.append(ticket)
        if finished:
            self.wake(finished)

    def fail_all(self, error: Refused) -> None:
        """Fail everything that waits: the model's process is gone."""
        with self._work:
            self._closing, self._ended = True, error
            tickets = [*self._unsent, *self._sent.values()]
            self._unsent.clear()
            self._sent.clear()
            self._work.notify()
        failed = [ticket for ticket in tickets if ticket.fail(error)]
        if failed:
            self.wake(failed)

    def unsent(self, portion: Portion, error: Exception) -> None:
        """A portion cannot be sent, because of some of its requests: they fail, and the others are sent."""
        tickets = [ticket for number, *_ in portion.tickets if (ticket := self._sent.get(number))]
        if len(portion.tickets) > 1:
            for ticket in tickets:
                self._send([ticket])
        elif tickets:
            self._fail(tickets, error)

    def close(self) -> None:
        """Refuse further tickets and stop the thread; every answer has been sent by now."""
        with self._work:
            self._closing = True
            self._work.notify()
        self._thread.join(10)

    def _run(self) -> None:
        while True:
            with self._work:
                while not self._unsent:
                    if self._closing:
                        return
                    self._work.wait()
                tickets = self._taken()
            self._send([ticket for ticket in tickets if not ticket.gone])

    def _send(self, tickets: list[Ticket]) -> None:
        try:
            portion = packed(tickets, *self._tasks)
        except Exception as error:
            self._fail(tickets, error)
            return
        with self._work:
            ended = self._ended
            if ended is None:  # registered before they are sent: an answer may be back at once
                self._sent |= {ticket.number: ticket for ticket in tickets}
        if ended is not None:  # `fail_all` came while they were tokenized, and did not see them
            self.wake([ticket for ticket in tickets if ticket.fail(ended)])
            return
        for ticket in tickets:
            if ticket.gone:  # its client left meanwhile
                self._sent.pop(ticket.number, None)
        self._channel.send("questions", portion)

    def _fail(self, tickets: list[Ticket], error: Exception) -> None:
        """Fail requests by an error of the server."""
        log_error("failure", error, texts=sum(len(ticket.questions) for ticket in tickets))
        for ticket in tickets:
            self._sent.pop(ticket.number, None)
        waited = [ticket for ticket in tickets if ticket.fail(failed())]
        if waited:
            self.wake(waited)

    def _taken(self) -> list[Ticket]:
        tickets: list[Ticket] = []
        size = 0
        while self._unsent and (not tickets or size + len(self._unsent[0].questions) <= PORTION):
            tickets.append(self._unsent.popleft())
            size += len(tickets[-1].questions)
        self.waiting -= size
        return tickets
