"""A channel between two processes: messages in both directions, sent and received by threads of their own."""

from __future__ import annotations

import os
import pickle
import socket
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from multiprocessing.connection import Connection
from queue import SimpleQueue
from typing import Any

Message = tuple[Any, ...]
"""The name of a handler, and its arguments."""


class Channel:
    """One end of a channel. Both ends are processes of this server: messages are pickled.

    A sender never waits for the other process: messages are put into a queue, which a thread sends. So a
    process that hangs does not stop the other one.

    Example:
        >>> from multiprocessing import Pipe
        >>> here, there = Pipe()
        >>> channel = Channel(here, {"answers": print}, on_end=print)
        >>> channel.send("questions", ["What is this?"])

    Args:
        connection: an end of `multiprocessing.Pipe()`.
        handlers: called with the arguments of a message, by its name, one after the other by one thread.
        on_end: called once, when the other process has closed its end or has died.
    """

    def __init__(
        self,
        connection: Connection[Any, Any],
        handlers: Mapping[str, Callable[..., None]],
        on_end: Callable[[], None],
    ) -> None:
        self._connection, self._handlers, self._on_end = connection, handlers, on_end
        self._outgoing: SimpleQueue[Message | None] = SimpleQueue()
        self._sender = threading.Thread(target=self._run_sender, name="weft-send", daemon=True)
        self._receiver = threading.Thread(target=self._run_receiver, name="weft-receive", daemon=True)

    def start(self) -> None:
        """Start both threads."""
        self._sender.start()
        self._receiver.start()

    def send(self, name: str, *arguments: Any) -> None:
        """Send a message soon."""
        self._outgoing.put((name, *arguments))

    def close(self) -> None:
        """Send what is waiting, then close this end; the other process gets its `on_end`."""
        self._outgoing.put(None)
        self._sender.join(10)
        with suppress(OSError):
            # closing alone would not wake the thread that reads, and the other process would notice nothing
            with socket.socket(fileno=os.dup(self._connection.fileno())) as same:
                same.shutdown(socket.SHUT_RDWR)
            self._connection.close()

    def _run_sender(self) -> None:
        while (message := self._outgoing.get()) is not None:
            try:
                self._connection.send_bytes(pickle.dumps(message, pickle.HIGHEST_PROTOCOL))
            except OSError:
                return  # the receiver notices, too

    def _run_receiver(self) -> None:
        with suppress(EOFError, OSError):
            while True:
                name, *arguments = pickle.loads(self._connection.recv_bytes())
                self._handlers[name](*arguments)
        self._on_end()
