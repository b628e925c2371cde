"""A process that sends requests: open-loop Poisson arrivals over kept connections.

    python -m benchmarks.speed.serving.load URL BODIES --rate 100 --seconds 5 [--most 256]

BODIES is a file with one JSON body per line, sent in turn. Requests are sent when they arrive, whether or not
earlier ones are answered, but at most `--most` at once; arrivals beyond that are counted as shed. Latency is
measured from the arrival. Throughput counts the answers from a fifth of the time on: a server that begins
with an empty queue has not answered anything at first. Prints one JSON object.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import sys
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit


class Connections:
    """Connections that are kept open."""

    def __init__(self, host: str, port: int) -> None:
        self._host, self._port = host, port
        self._idle: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []

    async def post(self, path: str, body: bytes) -> tuple[int, bytes]:
        """Send a request and return its status and body."""
        if self._idle:
            reader, writer = self._idle.pop()
        else:
            reader, writer = await asyncio.open_connection(self._host, self._port)
        head = f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
        head += f"Content-Length: {len(body)}\r\n\r\n"
        writer.write(head.encode() + body)
        status_line = await reader.readline()
        length = 0
        while (line := await reader.readline()) not in (b"\r\n", b""):
            name, _, value = line.partition(b":")
            if name.lower() == b"content-length":
                length = int(value)
        content = await reader.readexactly(length)
        self._idle.append((reader, writer))
        return int(status_line.split()[1]), content


async def send(args: argparse.Namespace) -> dict[str, Any]:
    """Send requests for some seconds, then wait for the answers."""
    parts = urlsplit(args.url)
    connections = Connections(parts.hostname or "", parts.port or 80)
    bodies = [line.encode() for line in Path(args.bodies).read_text().splitlines()]
    draw = random.Random(args.seed)
    latencies: list[float] = []
    done_at: list[float] = []
    statuses: dict[str, int] = {}
    running: set[asyncio.Task[None]] = set()
    shed = 0

    async def one(body: bytes, at: float) -> None:
        try:
            status, _ = await connections.post(parts.path, body)
        except (OSError, ValueError, IndexError, asyncio.IncompleteReadError) as wrong:
            statuses[type(wrong).__name__] = statuses.get(type(wrong).__name__, 0) + 1
            return
        statuses[str(status)] = statuses.get(str(status), 0) + 1
        if status == 200:
            now = time.perf_counter()
            latencies.append(now - at)
            done_at.append(now)

    began = time.perf_counter()
    arrival, number = began, draw.randrange(len(bodies))
    while arrival < began + args.seconds:
        arrival += draw.expovariate(args.rate)
        if (wait := arrival - time.perf_counter()) > 0:
            await asyncio.sleep(wait)
        if len(running) >= args.most:
            shed += 1
            # at full load an arrival that finds no place waits for the next answer
            await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
            arrival = time.perf_counter()
        task = asyncio.create_task(one(bodies[number % len(bodies)], arrival))
        running.add(task)
        task.add_done_callback(running.discard)
        number += 1
    stop = time.perf_counter()
    if running:
        await asyncio.wait(running, timeout=60)
    warm = began + (stop - began) / 5
    within = sum(warm < at <= stop for at in done_at)
    milliseconds = [round(1e3 * latency, 2) for latency in latencies]
    return {
        "per_s": within / (stop - warm),
        "statuses": statuses,
        "shed": shed,
        "latencies": milliseconds,
        **quantiles(milliseconds),
    }


def quantiles(milliseconds: list[float]) -> dict[str, float]:
    """The quantiles of latencies, by name."""
    ordered = sorted(milliseconds)
    last = len(ordered) - 1
    return {f"p{q}": ordered[min(last, last * q // 100 + 1)] for q in (50, 95, 99)} if ordered else {}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("url")
    parser.add_argument("bodies")
    parser.add_argument("--rate", type=float, required=True, help="requests per second")
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--most", type=int, default=256, help="requests at once")
    parser.add_argument("--seed", type=int, default=0)
    json.dump(asyncio.run(send(parser.parse_args())), sys.stdout)


if __name__ == "__main__":
    main()
