"""`weft serve` on a GPU: requests per second, latency at fixed rates, and 1,024 tasks beside nine.

    python -m benchmarks.speed.serving.on_gpu --root DATA [--precision float32] [--seconds 6] [--rounds 3]
        [--senders 6] [--many 1024] [--rates 1000 2000 3000] [--http-processes 4]
        [--out FILE.json]

MiniLM with LoRA, GLUE's validation texts, tasks mixed. The load comes from several processes. Two servers,
one with nine tasks and one with many, take turns. Prints rows as they are measured.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

import weft
from benchmarks.speed.encoders import minilm
from benchmarks.speed.machine import in_words, machine
from benchmarks.speed.serving.load import quantiles
from benchmarks.speed.serving.measure import free_port, texts_of, write_bodies
from benchmarks.speed.serving.servers import Server

AT_ONCE = {1: 512, 32: 48}
"""Requests that all senders together keep waiting at full load, by texts per request."""


def main() -> None:
    """Measure and print."""
    args = arguments()
    device = torch.device(args.device)
    settings = {"precision": args.precision, "http_processes": args.http_processes}
    facts: dict[str, Any] = {"machine": machine(device), "settings": settings}
    print(in_words(facts["machine"]), flush=True)
    rows: list[dict[str, Any]] = []
    facts["rows"] = rows

    def note(**row: Any) -> None:
        rows.append(row)
        print(json.dumps(row), flush=True)
        if args.out:
            args.out.write_text(json.dumps(facts, indent=1) + "\n")

    tasks = weft.load_suite("glue", args.root)
    requests = texts_of(tasks)
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        counts = {len(tasks): tasks, args.many: many_tasks(tasks, args.many)}
        servers: dict[int, Server] = {}
        bodies: dict[tuple[int, int], Path] = {}
        try:
            for count, listed in counts.items():
                mixed = spread(requests, [task.name for task in tasks], [task.name for task in listed])
                for group in AT_ONCE:
                    bodies[count, group] = write_bodies(place / f"{count}-{group}", mixed, group)
                model = weft.Model(minilm(args.minilm), listed, "lora", max_length=128).eval()
                model.encoder_source.model.save_pretrained(place / str(count) / "encoder")
                bundle = model.save(place / str(count) / "bundle")
                options = ["--precision", args.precision]
                if args.http_processes is not None:
                    options += ["--http-processes", str(args.http_processes)]
                servers[count] = Server("weft", bundle, free_port(), args.device, mixed[0], options)
                note(what="ready", tasks=count, memory_mb=round(servers[count].memory_mb()))
            for group, at_once in AT_ONCE.items():
                found: dict[int, list[dict[str, Any]]] = {count: [] for count in counts}
                for number in range(args.rounds):
                    for count, server in servers.items():
                        load = Load(args.senders, server.url, bodies[count, group], args.seconds, number)
                        found[count].append(load.run(1e5, at_once))
                for count, turns in found.items():
                    per_s = [turn["per_s"] * group for turn in turns]
                    note(
                        what="full load", tasks=count, texts_per_request=group,
                        texts_per_s=round(statistics.median(per_s)),
                        low=round(min(per_s)), high=round(max(per_s)),
                        statuses=_sum([turn["statuses"] for turn in turns]),
                    )  # fmt: skip
            for rate in args.rates:
                for count, server in servers.items():
                    load = Load(args.senders, server.url, bodies[count, 1], args.seconds, 99)
                    turn = load.run(rate, 4096)
                    note(
                        what="fixed rate", tasks=count, rate=rate, per_s=round(turn["per_s"]),
                        **quantiles(turn["latencies"]), statuses=turn["statuses"],
                    )  # fmt: skip
        finally:
            for server in servers.values():
                server.stop()


class Load:
    """Several processes that send requests.

    Args:
        senders: the number of processes.
        url: where to.
        bodies: the file with the bodies.
        seconds: for how long.
        seed: of the arrivals.
    """

    def __init__(self, senders: int, url: str, bodies: Path, seconds: float, seed: int) -> None:
        self._senders, self._seconds, self._seed = senders, seconds, seed
        self._command = [sys.executable, "-m", "benchmarks.speed.serving.load", url, str(bodies)]

    def run(self, rate: float, at_once: int) -> dict[str, Any]:
        """Send `rate` requests per second, `at_once` at most; return the sums over all processes."""
        with ThreadPoolExecutor(self._senders) as pool:
            turns = list(pool.map(lambda number: self._one(number, rate, at_once), range(self._senders)))
        return {
            "per_s": sum(turn["per_s"] for turn in turns),
            "latencies": [latency for turn in turns for latency in turn["latencies"]],
            "statuses": _sum([turn["statuses"] for turn in turns]),
        }

    def _one(self, number: int, rate: float, at_once: int) -> dict[str, Any]:
        options = ["--rate", str(rate / self._senders), "--most", str(max(1, at_once // self._senders))]
        options += ["--seconds", str(self._seconds), "--seed", str(1000 * self._seed + number)]
        done = subprocess.run([*self._command, *options], capture_output=True, check=True, text=True)
        found: dict[str, Any] = json.loads(done.stdout)
        return found


def many_tasks(tasks: Any, count: int) -> list[Any]:
    """Copies of the tasks under further names."""
    return [replace(tasks[n % len(tasks)], name=f"{tasks[n % len(tasks)].name}_{n}") for n in range(count)]


def spread(requests: list[dict[str, Any]], names: list[str], all_names: list[str]) -> list[dict[str, Any]]:
    """The requests, each for one of the copies of its task."""
    if names == all_names:
        return requests
    copies = {name: [other for other in all_names if other.rsplit("_", 1)[0] == name] for name in names}
    draw = random.Random(1)
    return [{**request, "task": draw.choice(copies[request["task"]])} for request in requests]


def _sum(counts: list[dict[str, int]]) -> dict[str, int]:
    total: dict[str, int] = {}
    for each in counts:
        for status, number in each.items():
            total[status] = total.get(status, 0) + number
    return total


def arguments() -> argparse.Namespace:
    """Parse the options."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.speed.serving.on_gpu")
    parser.add_argument("--root", required=True, help="folder with GLUE's files")
    parser.add_argument("--minilm", help="folder with MiniLM's files; default: the installed package")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--precision", default="float32")
    parser.add_argument("--seconds", type=float, default=6.0, help="seconds of a turn")
    parser.add_argument("--rounds", type=int, default=3, help="turns of each server at full load")
    parser.add_argument("--senders", type=int, default=6, help="processes that send requests")
    parser.add_argument("--many", type=int, default=1024, help="tasks of the second server")
    parser.add_argument(
        "--rates", type=int, nargs="+", default=[1000, 2000, 3000], help="requests per second"
    )
    parser.add_argument(
        "--http-processes", type=int, help="as of `weft serve`; default: what that command takes"
    )
    parser.add_argument("--out", type=Path, help="file of the results, JSON")
    return parser.parse_args()


if __name__ == "__main__":
    main()
