"""A real server on a free port, in a thread of this process, and bundles with a task of every kind."""

from __future__ import annotations

import socket
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import uvicorn

import weft
from tests.support.every_kind import NAMES, rows_of_kind, task_of_kind
from tests.support.tiny import scramble
from tests.support.tiny_run import save_encoder
from weft.serving.http.application import App, app

REQUESTS = [(name, row) for name in NAMES for row in rows_of_kind(name, 12, 3)]
"""Requests of every kind, as (task, row)."""

TEXT = {"task": "classify", "text": "the cat sees a dog"}
"""The body of one request."""


def save_every_kind(folder: Path, method: Any = None, names: tuple[str, ...] = NAMES) -> Path:
    """A bundle with a task of every kind whose adapters and heads have random values."""
    encoder = save_encoder(folder / "encoder")
    tasks = [task_of_kind(name) for name in names]
    model = scramble(weft.Model(encoder, tasks, method or {"use": "lora", "rank": 2}, max_length=24))
    return model.save(folder / "bundle")


class Served:
    """A server that runs.

    Attributes:
        url: its address.
        app: the application.
        server: the uvicorn server.
    """

    def __init__(self, application: App) -> None:
        self.app = application
        listener = socket.socket()
        listener.bind(("127.0.0.1", 0))
        self.port = listener.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        config = uvicorn.Config(
            application, log_level="critical", access_log=False, lifespan="on", timeout_graceful_shutdown=20
        )
        self.server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self.server.run, kwargs={"sockets": [listener]}, daemon=True)
        self._thread.start()
        until = time.monotonic() + 60
        while application.engine.state == "loading" and time.monotonic() < until:
            time.sleep(0.01)
        if application.engine.error is not None:
            raise application.engine.error
        while not self.server.started:
            time.sleep(0.01)

    def client(self, key: str | None = None) -> weft.Client:
        """A client of it."""
        return weft.Client(self.url, key)

    def count(self, name: str, **labels: str) -> float:
        """The value of one of its metrics, summed over labels that are not given."""
        total = 0.0
        for family in self.app.metrics.registry.collect():
            for sample in family.samples:
                if sample.name == name and labels.items() <= sample.labels.items():
                    total += sample.value
        return total

    def stop(self) -> None:
        """Stop it as SIGTERM would."""
        self.server.should_exit = True
        self._thread.join(30)
        assert not self._thread.is_alive()


@contextmanager
def serving(bundle: Any, **settings: Any) -> Iterator[Served]:
    """Serve a bundle inside."""
    served = Served(app(bundle, **{"log": "none", "threads": 1, **settings}))
    try:
        yield served
    finally:
        served.stop()


def plain(answer: dict[str, Any]) -> dict[str, Any]:
    """An answer without the fields that only the server has."""
    return {key: value for key, value in answer.items() if key not in ("truncated", "id")}


def post(url, data, timeout=30.0):
    """Return (status, headers, body) of a POST."""
    request = urllib.request.Request(f"{url}/v1/predict", data)
    try:
        with urllib.request.urlopen(request, timeout=timeout) as response:
            return response.status, response.headers, response.read()
    except urllib.error.HTTPError as wrong:
        return wrong.code, wrong.headers, wrong.read()
