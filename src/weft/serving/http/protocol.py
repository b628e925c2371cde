"""uvicorn's HTTP/1.1 with limits on headers: how many bytes they have, and how long they take.

uvicorn limits neither the size of headers nor the time in which they arrive, and the application with its
limits on bodies is called only when headers are complete.
"""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from weft.serving.refused import Refused

BYTES = 64 << 10
"""The most bytes of the headers of a request. Browsers send a few KB; proxies allow 8 to 64 KB."""

SECONDS = 20.0
"""How long a client may take for the headers, and for the rest of a body that is not needed any more."""


class LimitedProtocol(HttpToolsProtocol):
    """One connection.

    - The first BYTES bytes of a request must complete its headers; else it gets 431. The same holds for bytes
      in a body that are no content, such as headers behind it.
    - Headers must be complete within SECONDS, counted from the start of the connection, or from the first
      byte of a further request; else the connection is closed.
    - A request may be answered before its body is complete, because it is too large or too slow. What comes
      then is dropped, and if that is not the end of the body within SECONDS, the connection is closed.
    - Errors of this layer have the JSON form of all others.
    """

    limit = BYTES
    seconds = SECONDS

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._size = 0  # bytes since the last that was of use
        self._useful = False
        self._in_head, self._refused = True, False
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """A client has connected."""
        super().connection_made(transport)
        self._start_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is gone."""
        self._stop_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse what has come, in parts that stay within the limit."""
        while data and not (self._refused or self.transport.is_closing()):
            room = self.limit - self._size
            part, data = data[:room], data[room:]
            self._useful = False
            if self._in_head and self._timer is None:
                self._start_timer()
            super().data_received(part)
            self._size = 0 if self._useful else self._size + len(part)
            if self._size >= self.limit and not self._refused:
                self._refuse("headers_too_large", f"the headers have more than {self.limit:,} bytes")

    def on_headers_complete(self) -> None:
        """The headers of a request are complete: the application is called."""
        self._useful, self._in_head = True, False
        self._stop_timer()
        super().on_headers_complete()

    def on_chunk_header(self) -> None:
        """A part of the body begins."""
        self._useful = True

    def on_body(self, body: bytes) -> None:
        """Some bytes of a body."""
        self._useful = True
        super().on_body(body)

    def on_message_complete(self) -> None:
        """A request is complete."""
        self._useful, self._in_head = True, True
        self._stop_timer()
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """A response has been written."""
        super().on_response_complete()
        # a request that waits in the pipeline came after a complete one
        if not self._in_head and self.cycle.response_complete:
            self._start_timer()

    def send_400_response(self, msg: str) -> None:
        """Answer what is no HTTP."""
        self._refuse("bad_request", "this is not a valid HTTP request")

    def _unsupported_upgrade_warning(self) -> None:
        """Nothing: a request to upgrade is answered in HTTP/1.1. Some clients send one every time."""

    def _refuse(self, code: str, message: str) -> None:
        """Answer with an error, and read no more requests of this connection."""
        self._refused = True
        cycle = self.cycle
        if cycle is not None and not cycle.response_complete:
            if self._in_head:
                cycle.keep_alive = False  # the answers to earlier requests come first, then the end
                return
            cycle.disconnected = True  # its body will never be complete
            cycle.message_event.set()
            if cycle.response_started:
                self.transport.close()
                return
        refused = Refused(code, message)
        status, body = refused.status, refused.body
        lines = [
            b"HTTP/1.1 %d %s" % (status, HTTPStatus(status).phrase.encode()),
            *(b"%s: %s" % header for header in self.server_state.default_headers),
            b"content-type: application/json",
            b"content-length: %d" % len(body),
            b"connection: close",
        ]
        self.transport.write(b"\r\n".join([*lines, b"", body]))
        # closing at once would reset the connection if the client still sends; it would miss the answer
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self._start_timer()

    def _start_timer(self) -> None:
        self._stop_timer()
        self._timer = self.loop.call_later(self.seconds, self._too_late)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _too_late(self) -> None:
        self._timer = None
        cycle = self.cycle
        if cycle is not None and not (cycle.response_complete or cycle.disconnected):
            self._start_timer()  # an earlier request of this connection has yet to be answered
        else:
            self.transport.close()
