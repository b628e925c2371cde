"""A channel between two processes: messages in both directions, received by a thread of its own."""

from __future__ import annotations

import os
import pickle
import socket
import struct
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any

from weft.serving.request_log import log_error

Message = tuple[Any, ...]
"""The name of a handler, and its arguments."""

_LENGTH = struct.Struct("<Q")
"""How many bytes of a pickled message follow."""


def _not_for_one_request(name: str, arguments: Sequence[Any], error: Exception) -> None:
    raise error


class Channel:
    """One end of a channel. Both ends are processes of this server: messages are pickled.

    A sender never waits for the other process. A message is written at once, by the thread that sends it, as
    far as the pipe has room; a further thread writes the rest. So a process that hangs does not stop the
    other one, and as a rule no thread must be woken to send.

    No message ends a thread without notice. What cannot be sent goes to `on_unsent`. If that or a handler
    fails, the error is logged and the channel ends on both sides, as if the other process had died: an HTTP
    process is then replaced, and nobody waits for what was lost.

    Example:
        >>> from multiprocessing import Pipe
        >>> here, there = Pipe()
        >>> channel = Channel(here, {"answers": print}, on_end=print)
        >>> channel.send("questions", ["What is this?"])

    Args:
        connection: an end of `multiprocessing.Pipe()`; nothing else reads or writes it from now on.
        handlers: called with the arguments of a message, by its name, one after the other by one thread.
        on_end: called once, when the other process has closed its end or has died.
        on_unsent: called with the name, the arguments and the error of a message that cannot be pickled, by
            the thread that sends it; it may send another one instead. By default the channel ends.
    """

    def __init__(
        self,
        connection: Connection[Any, Any],
        handlers: Mapping[str, Callable[..., None]],
        on_end: Callable[[], None],
        on_unsent: Callable[[str, Sequence[Any], Exception], None] = _not_for_one_request,
    ) -> None:
        self._handlers, self._on_end, self._on_unsent = handlers, on_end, on_unsent
        self._socket = socket.socket(fileno=os.dup(connection.fileno()))
        self._socket.setblocking(True)  # whatever the process has set as the default
        connection.close()
        self._stream = self._socket.makefile("rb", 1 << 16)
        self._lock = threading.Lock()
        self._left: deque[memoryview] = deque()  # the first one is being written
        self._work = threading.Condition(self._lock)
        self._closing = self._broken = False
        self._sender = threading.Thread(target=self._run_sender, name="weft-send", daemon=True)
        self._receiver = threading.Thread(target=self._run_receiver, name="weft-receive", daemon=True)

    def start(self) -> None:
        """Start both threads."""
        self._sender.start()
        self._receiver.start()

    def send(self, name: str, *arguments: Any) -> None:
        """Send a message, after all that this thread has sent before."""
        if self._broken:
            return
        try:
            data = self._pickled((name, *arguments))
        except Exception as error:
            log_error("failure", error)
            self._break()
            return
        if data is None:
            return
        frame = memoryview(_LENGTH.pack(len(data)) + data)
        with self._lock:
            written = 0 if self._left else self._written_at_once(frame)
            if written < len(frame):
                self._left.append(frame[written:])
                self._work.notify()

    def close(self) -> None:
        """Send what is waiting, then close this end; the other process gets its `on_end`."""
        with self._lock:
            self._closing = True
            self._work.notify()
        self._sender.join(10)
        self._shut_down()
        self._socket.close()

    def _shut_down(self) -> None:
        """Wake the threads that read, here and in the other process: closing alone would not."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def _break(self) -> None:
        """End the channel on both sides: a message is lost."""
        self._broken = True
        self._shut_down()

    def _written_at_once(self, frame: memoryview) -> int:
        """Write as much as the pipe has room for, and return how many bytes that was."""
        try:
            return self._socket.send(frame, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return 0
        except OSError:
            self._break()
            return len(frame)

    def _run_sender(self) -> None:
        while True:
            with self._lock:
                while not self._left:
                    if self._closing:
                        return
                    self._work.wait()
                rest = self._left[0]
            try:
                self._socket.sendall(rest)
            except OSError:
                self._break()
                with self._lock:
                    self._left.clear()
                return
            with self._lock:
                self._left.popleft()

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
        self._stream.close()

    def _received(self) -> bytes | None:
        """The next message; None if the other process has closed its end."""
        with suppress(OSError, ValueError):
            head = self._stream.read(_LENGTH.size)
            if len(head) == _LENGTH.size:
                (length,) = _LENGTH.unpack(head)
                data = self._stream.read(length)
                return data if len(data) == length else None
        return None
