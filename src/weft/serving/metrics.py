"""What `GET /metrics` shows, for Prometheus: requests, latency, batches, padding and the queue."""

from __future__ import annotations

from collections import Counter as Counts
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from weft.serving.request_log import log_error

if TYPE_CHECKING:
    from weft.serving.batching.ticket import Item
    from weft.serving.batching.worker import Batch
    from weft.serving.interface import Queue

SECONDS = (0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
ROWS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)


class Metrics:
    """The metrics of one server; several servers in one process count separately."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.requests = Counter(
            "weft_requests", "HTTP requests, by path and status.", ["path", "status"], registry=self.registry
        )
        self.texts = Counter(
            "weft_texts",
            "Texts answered, by task; a text for several tasks counts once for each.",
            ["task"],
            registry=self.registry,
        )
        self.latency = Histogram(
            "weft_request_seconds",
            "Seconds from the request to its answer, by task; '(several)' if mixed.",
            ["task"],
            buckets=SECONDS,
            registry=self.registry,
        )
        self.batch_rows = Histogram(
            "weft_batch_rows", "Rows of a batch.", buckets=ROWS, registry=self.registry
        )
        self.batch_seconds = Histogram(
            "weft_batch_seconds", "Seconds of a batch.", buckets=SECONDS, registry=self.registry
        )
        self.positions = Counter(
            "weft_batch_positions",
            "Token positions of all batches: tokens, and padding.",
            ["kind"],
            registry=self.registry,
        )
        self.failures = Counter(
            "weft_failures", "Questions that failed by an error of the server.", registry=self.registry
        )
        self.queue = Gauge("weft_queue_texts", "Texts that wait for their batch.", registry=self.registry)
        self.rate = Gauge(
            "weft_rate_texts", "Texts per second while the model is busy.", registry=self.registry
        )
        # the library checks names at every look-up, which takes longer than to count
        self._texts_of = cache(self.texts.labels)
        self._latency_of = cache(self.latency.labels)
        self._requests_of = cache(self.requests.labels)

    def watch(self, batcher: Callable[[], Queue | None]) -> None:
        """Read the queue's length from a batcher, once it exists, whenever the metrics are read."""

        def read(name: str) -> float:
            found = batcher()
            return 0.0 if found is None else float(getattr(found, name))

        self.queue.set_function(lambda: read("waiting"))
        self.rate.set_function(lambda: read("rate"))

    def batch(self, batch: Batch, seconds: float) -> None:
        """Count a batch that was answered."""
        self.batch_seconds.observe(seconds)
        self.batch_rows.observe(batch.rows)
        self.positions.labels("token").inc(batch.tokens)
        self.positions.labels("padding").inc(batch.positions - batch.tokens)

    def failure(self, error: BaseException, items: Sequence[Item]) -> None:
        """Count and log questions that failed by an error of the server."""
        self.failures.inc(len(items))
        log_error("failure", error, texts=len(items))

    def answered(self, tasks: Sequence[str], seconds: float) -> None:
        """Count a request whose questions were answered, by the task of each."""
        counts = Counts(tasks)
        for name, count in counts.items():
            self._texts_of(name).inc(count)
        self._latency_of("(several)" if len(counts) > 1 else tasks[0]).observe(seconds)

    def request(self, path: str, status: str) -> None:
        """Count an HTTP request.

        Args:
            path: its path, of those that the server knows.
            status: the status of its response; `gone` if the client has left.
        """
        self._requests_of(path, status).inc()

    def text(self) -> bytes:
        """The metrics in the format of Prometheus."""
        return generate_latest(self.registry)


def merged(texts: Mapping[str, str]) -> str:
    """The metrics of several replicas as one text, each value with the label `replica`.

    Example:
        >>> merged({"a": "# HELP up …\\nup 1.0\\n", "b": "# HELP up …\\nup 2.0\\n"})
        '# HELP up …\\nup{replica="a"} 1.0\\nup{replica="b"} 2.0\\n'

    Args:
        texts: the metrics of each replica by its name, in the format of Prometheus.
    """
    described: dict[str, list[str]] = {}  # the description of each metric, which may stand there once
    values: dict[str, list[str]] = {}
    metric = ""
    for replica, text in texts.items():
        for line in text.splitlines():
            if line.startswith("#"):
                metric = line.split()[2]
                known = described.setdefault(metric, [])
                known += [] if line in known else [line]
            else:
                values.setdefault(metric, []).append(_labelled(line, replica))
    return "".join(f"{line}\n" for name in described for line in (*described[name], *values.get(name, ())))


def _labelled(line: str, replica: str) -> str:
    """A line of metrics with one more label."""
    brace = line.find("{")
    if brace < 0:
        name, _, value = line.partition(" ")
        return f'{name}{{replica="{replica}"}} {value}'
    return f'{line[: brace + 1]}replica="{replica}",{line[brace + 1 :]}'
