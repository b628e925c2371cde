"""A channel between two processes: messages in both directions, sent and received by threads of their own."""

from __future__ import annotations

import os
import pickle
import socket
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection
from queue import SimpleQueue
from typing import Any

from weft.serving.request_log import log_error

Message = tuple[Any, ...]
"""The name of a handler, and its arguments."""


def _not_for_one_request(name: str, arguments: Sequence[Any], error: Exception) -> None:
    raise error


class Channel:
    """One end of a channel. Both ends are processes of this server: messages are pickled.

    A sender never waits for the other process: messages are put into a queue, which a thread sends. So a
    process that hangs does not stop the other one.

    No message ends a thread without notice. What cannot be sent goes to `on_unsent`. If that or a handler
    fails, the error is logged and the channel ends on both sides, as if the other process had died: an HTTP
    process is then replaced, and nobody waits for what was lost.

    Example:
        >>> from multiprocessing import Pipe
        >>> here, there = Pipe()
        >>> channel = Channel(here, {"answers": print}, on_end=print)
        >>> channel.send("questions", ["What is this?"])

    Args:
        connection: an end of `multiprocessing.Pipe()`.
        handlers: called with the arguments of a message, by its name, one after the other by one thread.
        on_end: called once, when the other process has closed its end or has died.
        on_unsent: called with the name, the arguments and the error of a message that cannot be pickled, by
            the thread that sends; it may send another one instead. By default the channel ends.
    """

    def __init__(
        self,
        connection: Connection[Any, Any],
        handlers: Mapping[str, Callable[..., None]],
        on_end: Callable[[], None],
        on_unsent: Callable[[str, Sequence[Any], Exception], None] = _not_for_one_request,
    ) -> None:
        self._connection, self._handlers = connection, handlers
        self._on_end, self._on_unsent = on_end, on_unsent
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
        self._shut_down()
        with suppress(OSError):
            self._connection.close()

    def _shut_down(self) -> None:
        """Wake the threads that read, here and in the other process: closing alone would not."""
        with suppress(OSError), socket.socket(fileno=os.dup(self._connection.fileno())) as same:
            same.shutdown(socket.SHUT_RDWR)

    def _run_sender(self) -> None:
        while (message := self._outgoing.get()) is not None:
            try:
                data = self._pickled(message)
                if data is not None:
                    self._connection.send_bytes(data)
            except OSError:
                return  # the receiver notices, too
            except Exception as error:
                log_error("failure", error)
                self._shut_down()
                return

    def _pickled(self, message: Message) -> bytes | None:
        try:
            return pickle.dumps(message, pickle.HIGHEST_PROTOCOL)
        except Exception as error:
            # any type: values that are nested deeply raise RecursionError, others what their class likes
            name, *arguments = message
            self._on_unsent(name, arguments, error)
            return None

    def _run_receiver(self) -> None:
        try:
            while (data := self._received()) is not None:
                name, *arguments = pickle.loads(data)
                self._handlers[name](*arguments)
        except Exception as error:
            log_error("failure", error)
            self._shut_down()
        self._on_end()

    def _received(self) -> bytes | None:
        """The next message; None if the other process has closed its end."""
        with suppress(EOFError, OSError):
            return self._connection.recv_bytes()
        return None
