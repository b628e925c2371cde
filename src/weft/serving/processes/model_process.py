"""The model's process of a server with HTTP processes: starts them, answers their questions, stops them."""

from __future__ import annotations

import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weft.errors import RunFailed
from weft.serving.engine import Engine
from weft.serving.metrics import Metrics
from weft.serving.processes.errors import as_tuple
from weft.serving.processes.peer import Peer
from weft.serving.processes.sums import summed
from weft.serving.request_log import log, log_error

if TYPE_CHECKING:
    from weft.serving.batching.ticket import Ticket
    from weft.serving.settings import ServeSettings

PATIENCE = 10.0
"""Seconds that an HTTP process has to take over a changed task, or to send its metrics."""
STARTS = 3
"""How often in a row an HTTP process may end before it is ready; then the server gives up."""


class ModelProcess:
    """A server with HTTP processes.

    Args:
        bundle: the folder of a bundle, of a run or of an export to ONNX.
        settings: the settings.
        listener: the port.
        processes: the number of HTTP processes.

    Attributes:
        engine: the model, its tasks and the batcher.
        peers: the HTTP processes.
    """

    def __init__(
        self, bundle: str | Path, settings: ServeSettings, listener: socket.socket, processes: int
    ) -> None:
        self._settings, self._listener, self._processes = settings, listener, processes
        self._metrics = Metrics()
        self.engine = Engine(bundle, settings, self._metrics)
        self._metrics.watch(lambda: self.engine.batcher)
        self._lock = threading.RLock()
        self._changing = threading.Lock()
        self._stop = threading.Event()
        self._failed_starts = 0
        self._loaded = False
        self._error: BaseException | None = None
        self._pool = ThreadPoolExecutor(4, "weft-calls")
        self._numbers = count(1)
        self.peers: list[Peer] = []

    def run(self) -> None:
        """Serve until `stop` is called or something fails; every accepted request is answered."""
        for _ in range(self._processes):
            self._start_peer()
        threading.Thread(target=self._load, name="weft-load", daemon=True).start()
        self._stop.wait()
        self._close_listener()
        self._stop_peers()
        self.engine.close()
        self._pool.shutdown(wait=False)
        error = self._error or self.engine.error
        if error is not None:
            raise error

    def stop(self, *_: Any) -> None:
        """Stop the server; may be called by a signal's handler."""
        self._stop.set()

    def _load(self) -> None:
        self.engine.load_logged(deliver)
        if self.engine.error is not None:
            self._stop.set()
            return
        with self._lock:
            self._loaded = True
            for peer in self.peers:
                self._introduce(peer)

    def _start_peer(self) -> None:
        with self._lock:
            peer = Peer(self, self._settings, self._listener)
            self.peers.append(peer)
            if self._loaded:
                self._introduce(peer)

    def _introduce(self, peer: Peer) -> None:
        """Tell an HTTP process what it needs to read requests; from then on it sends questions."""
        model, served = self.engine.queue.worker.model, self.engine.served
        peer.seen = served.version
        peer.send("ready", served, model.tokenizer, model.max_length)

    def ended(self, peer: Peer) -> None:
        """Start another HTTP process in the place of one that has ended by itself."""
        peer.drop()
        code = _waited(peer.process, PATIENCE)
        if code is None:  # it hangs, and would go on accepting connections
            peer.process.kill()
            code = peer.process.wait()
        with self._lock:
            self.peers.remove(peer)
            if self._stop.is_set():
                return
            self._failed_starts = 0 if peer.ready else self._failed_starts + 1
            log("http process ended", code=code, seconds=round(time.monotonic() - peer.began, 1))
            if self._failed_starts >= STARTS:
                self._error = RunFailed(
                    f"an HTTP process cannot be started (exit code {code}); the lines above have its error"
                )
                self._stop.set()
                return
            self._start_peer()

    def called(self, peer: Peer, number: int, name: str, arguments: tuple[Any, ...]) -> None:
        """Run a function that an HTTP process calls, in a thread: others may answer meanwhile."""
        functions: dict[str, Callable[..., Any]] = {
            "put_task": self._put_task,
            "remove_task": self._remove_task,
            "metrics": self._all_metrics,
        }

        def work() -> None:
            try:
                peer.send("result", number, functions[name](*arguments), None)
            except Exception as error:
                fields = as_tuple(error)
                if fields[:2] == ("refused", "failed"):
                    log_error("failure", error)
                peer.send("result", number, None, fields)

        self._pool.submit(work)

    def _put_task(self, name: str, contents: bytes) -> bool:
        with self._changing:
            reloaded = self.engine.put_task(name, contents)
            self._publish()
        return reloaded

    def _remove_task(self, name: str) -> None:
        with self._changing:
            self.engine.remove_task(name)
            self._publish()

    def _publish(self) -> None:
        """Send the table of tasks to all HTTP processes, and wait until they use it.

        A process that starts meanwhile gets the new table at once. One that hangs is not waited for forever:
        what it has read for an old table is read again before it is answered.
        """
        served = self.engine.served
        with self._lock:
            peers = list(self.peers)
            for peer in peers:
                peer.send("table", served)
        _until(lambda: all(peer.seen >= served.version or peer.gone for peer in peers))

    def _all_metrics(self) -> str:
        """The metrics of all processes, added up."""
        number = next(self._numbers)
        with self._lock:
            peers = [peer for peer in self.peers if peer.ready and not peer.gone]
            for peer in peers:
                peer.send("metrics", number)
        _until(lambda: all(peer.metrics[0] >= number or peer.gone for peer in peers))
        return summed([self._metrics.text().decode(), *(peer.metrics[1] for peer in peers)])

    def _close_listener(self) -> None:
        """Refuse new connections from now on.

        All HTTP processes hold the port, too, and the kernel would accept connections until the last one has
        closed it. Shutting it down ends it for all of them, even for one that hangs.
        """
        with self._lock:  # no HTTP process is being started: it would need the port
            with suppress(OSError):  # nobody listens yet, or a system that cannot do this
                self._listener.shutdown(socket.SHUT_RDWR)
            self._listener.close()

    def _stop_peers(self) -> None:
        with self._lock:
            peers = list(self.peers)
        for peer in peers:
            peer.process.send_signal(signal.SIGTERM)
        end = time.monotonic() + self._settings.deadline + 10
        for peer in peers:
            if _waited(peer.process, max(end - time.monotonic(), 0.1)) is None:
                peer.process.kill()
                peer.process.wait()


def deliver(tickets: Sequence[Ticket]) -> None:
    """Send finished tickets to the HTTP processes that they came from."""
    of_peers: dict[Peer, list[Any]] = {}
    for ticket in tickets:
        of_peers.setdefault(ticket.peer, []).append(ticket)  # type: ignore[attr-defined]
    for peer, own in of_peers.items():
        peer.deliver(own)


def _waited(process: subprocess.Popen[bytes], seconds: float) -> int | None:
    """The exit code of a process; None if it still runs after some seconds."""
    with suppress(subprocess.TimeoutExpired):
        return process.wait(seconds)
    return None


def _until(condition: Callable[[], bool]) -> None:
    """Wait until a condition holds, for some seconds at most."""
    end = time.monotonic() + PATIENCE
    while not condition() and time.monotonic() < end:
        time.sleep(0.002)
