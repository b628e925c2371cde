"""An HTTP process: the application at a shared port, for a model in another process.

    python -m weft.serving.processes.http_process LISTENER CONNECTION

Both are numbers of inherited file descriptors. `weft serve --http-processes N` starts N of these.
"""

from __future__ import annotations

import asyncio
import pickle
import socket
import sys
import time
from multiprocessing.connection import Connection
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from weft.errors import command_line
from weft.serving.engine import SWITCH
from weft.serving.http.application import App, in_thread
from weft.serving.processes.http_engine import HttpEngine
from weft.serving.server import run_application
from weft.serving.settings import ServeSettings

MOMENT = 3.0
"""The most seconds that a request waits for a process that is not ready yet."""


class HttpApp(App):
    """The application of an HTTP process.

    Args:
        connection: to the model's process.
        settings: the settings of the server.
    """

    def __init__(self, connection: Connection[Any, Any], settings: ServeSettings) -> None:
        super().__init__(lambda *_: HttpEngine(connection, settings, self._text), None, settings)
        assert isinstance(self.engine, HttpEngine)
        self._remote = self.engine

    def _text(self) -> bytes:
        return self.metrics.text()

    def _load(self) -> None:
        self._remote.on_end = lambda: self.on_failure()
        super()._load()

    async def _routed(self, request: Request, path: str, method: str) -> Response:
        """As in `App`. A client that was told by one process that the server is ready may meet another one,
        which becomes ready a moment later.
        """
        end = time.monotonic() + MOMENT
        while path.startswith("/v1/") and self.engine.state == "loading" and time.monotonic() < end:
            await asyncio.sleep(0.01)
        return await super()._routed(request, path, method)

    async def _metrics(self, request: Request) -> Response:
        self._ready_engine()
        text = await in_thread(self._remote.call, "metrics")
        return Response(text, media_type="text/plain; version=0.0.4; charset=utf-8")


def main() -> None:
    """Serve until SIGTERM, or until the model's process ends."""
    listener, connection = socket.socket(fileno=int(sys.argv[1])), Connection(int(sys.argv[2]))
    try:
        settings: ServeSettings = pickle.loads(connection.recv_bytes())
    except EOFError:
        return
    sys.setswitchinterval(SWITCH)  # a thread that tokenizes must not wait for the one that reads requests
    with command_line():  # only `weft serve` starts it
        run_application(HttpApp(connection, settings), settings, listener)


if __name__ == "__main__":
    main()
