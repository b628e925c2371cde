"""`weft serve` with HTTP processes, for tests."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import urllib.request
from contextlib import contextmanager
from itertools import count

import weft

LOGS = count()


class Running:
    """`weft serve`, as a process.

    Args:
        folder: the bundle.
        options: further options of the command.
        http_processes: the number of HTTP processes that are expected.
        asked: whether the command names this number; else it is the default of the device.

    Attributes:
        url: its address.
        process: the model's process.
    """

    def __init__(self, folder, *options, http_processes=2, asked=True):
        self.log = folder.parent / f"log-{next(LOGS)}"
        command = [sys.executable, "-m", "weft", "serve", str(folder), "--port", "0", "--threads", "1"]
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                [*command, *(["--http-processes", str(http_processes)] if asked else []), *options],
                stderr=log,
                env={**os.environ, "PYTHONUNBUFFERED": "1"},
            )
        until(lambda: self._address() or self.process.poll() is not None, 120)
        self.url = self._address()
        until(lambda: self.client().is_ready() or self.process.poll() is not None, 240)
        assert self.process.poll() is None, self.log.read_text()
        until(lambda: len(self.children()) == http_processes)

    def _address(self):
        return next((word for word in self.log.read_text().split() if word.startswith("http://127")), None)

    def client(self):
        return weft.Client(self.url)

    def children(self):
        """The process ids of its HTTP processes."""
        return children_of(self.process.pid)

    def count(self, name, **labels):
        """The value of a metric, summed over labels that are not given."""
        total = 0.0
        for line in urllib.request.urlopen(f"{self.url}/metrics").read().decode().splitlines():
            known = all(f'{key}="{value}"' in line for key, value in labels.items())
            if line.partition("{")[0].partition(" ")[0] == name and known:
                total += float(line.rpartition(" ")[2])
        return total


def children_of(pid):
    with open(f"/proc/{pid}/task/{pid}/children") as file:
        return [int(child) for child in file.read().split()]


@contextmanager
def running(folder, *options, **settings):
    server = Running(folder, *options, **settings)
    try:
        yield server
    finally:
        server.process.send_signal(signal.SIGTERM)
        try:
            server.process.wait(60)
        finally:
            server.process.kill()


def until(condition, seconds=30.0):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)
