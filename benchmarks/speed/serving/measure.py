"""The section `serving` of the benchmarks: throughput at full load, latency at a fixed load, memory.

Servers take turns: in each round every server gets the same load for some seconds, while the others are
suspended.
The load comes from a process of its own, on the same cores.
"""

from __future__ import annotations

import json
import random
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import Any

import weft
from benchmarks.speed.bench import Bench, first_line
from benchmarks.speed.results import Work
from benchmarks.speed.serving.load import quantiles
from benchmarks.speed.serving.servers import NAMES, Server, suspended
from weft.data import load_split

OFFLINE = "offline model.predict"
GROUPS = (1, 32)
LOAD = 0.7
"""Latency is measured at this share of the slowest server's throughput."""


def measure(bench: Bench, encoder: str, root: str, rounds: int, seconds: float) -> None:
    """Measure all servers.

    Args:
        bench: the run.
        encoder: the encoder, `minilm`.
        root: the folder with GLUE's files.
        rounds: how often every server has its turn.
        seconds: the seconds of a turn.
    """
    device = bench.device.type
    tasks = weft.load_suite("glue", root)
    requests = texts_of(tasks)
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        bundles = {}
        for method in ("lora", "frozen"):
            model = weft.Model(encoder, tasks, method, max_length=128).eval()
            model.encoder_source.model.save_pretrained(place / method / "encoder")
            bundles[method] = model.save(place / method / "bundle")
        offline = weft.load(bundles["lora"], device=device)
        servers: dict[str, Server] = {}
        try:
            for name in NAMES:
                try:
                    servers[name] = Server(name, bundles["lora"], free_port(), device, requests[0])
                    bench.say(f"  {name}: ready, {servers[name].memory_mb():.0f} MB")
                except Exception as failed:
                    bench.skip(f"serving: {name}", first_line(failed))
            rates = {}
            for group in GROUPS:
                rates[group] = throughput(bench, servers, offline, requests, group, rounds, seconds, place)
            latency(bench, servers, requests, min(rates[1].values()) * LOAD, rounds, seconds, place)
            memory(bench, servers, offline)
        finally:
            for server in servers.values():
                server.stop()
        all_tasks(bench, bundles["frozen"], requests, rounds, device)


def texts_of(tasks: Any) -> list[dict[str, Any]]:
    """Validation texts of all tasks, mixed, as bodies of requests."""
    bodies = []
    for task in tasks:
        for texts in load_split(task, "validation").texts[:2000]:
            keys = ("text",) if len(texts) == 1 else ("text_a", "text_b")
            bodies.append({"task": task.name, **dict(zip(keys, texts, strict=True))})
    random.Random(0).shuffle(bodies)
    return bodies


def write_bodies(file: Path, requests: list[dict[str, Any]], group: int) -> Path:
    """Write the bodies of requests with `group` texts each, one per line."""
    lines = []
    for first in range(0, min(len(requests), 6400) - group + 1, group):
        chosen = requests[first : first + group]
        lines.append(json.dumps(chosen[0] if group == 1 else {"requests": chosen}))
    file.write_text("\n".join(lines) + "\n")
    return file


def send(url: str, bodies: Path, rate: float, seconds: float, most: int, seed: int) -> dict[str, Any]:
    """Run the process that sends requests."""
    options = ["--rate", str(rate), "--seconds", str(seconds), "--most", str(most), "--seed", str(seed)]
    command = [sys.executable, "-m", "benchmarks.speed.serving.load", url, str(bodies), *options]
    done = subprocess.run(command, capture_output=True, check=True, text=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def throughput(
    bench: Bench,
    servers: dict[str, Server],
    offline: Any,
    requests: list[dict[str, Any]],
    group: int,
    rounds: int,
    seconds: float,
    place: Path,
) -> dict[str, float]:
    """Texts per second of each server at full load; returns requests per second."""
    bodies = write_bodies(place / f"bodies-{group}", requests, group)
    per_s: dict[str, list[float]] = {name: [] for name in [OFFLINE, *servers]}
    most = 64 if group == 1 else 8
    plain = [(r["task"], r["text"] if "text" in r else (r["text_a"], r["text_b"])) for r in requests]
    guess = 400.0
    for number in range(rounds):
        count = max(64, int(guess * seconds))
        chosen = (plain * (count // len(plain) + 1))[number : number + count]
        with suspended(servers.values()):
            began = time.perf_counter()
            offline.predict(chosen)
            guess = count / (time.perf_counter() - began)
        per_s[OFFLINE].append(guess)
        for name, server in servers.items():
            with suspended(servers.values(), but=server):
                found = send(server.url, bodies, 4 * guess / group, seconds, most, number)
            per_s[name].append(found["per_s"] * group)
            if set(found["statuses"]) - {"200"}:
                bench.say(f"    {name}: statuses {found['statuses']}")
    words = "single texts" if group == 1 else f"{group} texts per request"
    rows = []
    for name, found in per_s.items():
        median = statistics.median(found)
        spread = [round(1e3 / max(found), 4), round(1e3 / min(found), 4)]
        facts = {"texts_per_s": round(median, 1)}
        rows.append(
            {"variant": named(name), "ms": 1e3 / median, "low": spread[0], "high": spread[1], **facts}
        )
    note(bench, f"serving, {words}", named(OFFLINE), "speed", rows, {"texts_per_request": group})
    return {name: statistics.median(found) / group for name, found in per_s.items() if name != OFFLINE}


def latency(
    bench: Bench,
    servers: dict[str, Server],
    requests: list[dict[str, Any]],
    rate: float,
    rounds: int,
    seconds: float,
    place: Path,
) -> None:
    """The latency of single texts, p50 and p99, at one rate for all servers."""
    bodies = write_bodies(place / "bodies-latency", requests, 1)
    found: dict[str, list[float]] = {name: [] for name in servers}
    for number in range(rounds):
        for name, server in servers.items():
            with suspended(servers.values(), but=server):
                found[name] += send(server.url, bodies, rate, seconds, 2048, number)["latencies"]
    for quantile in ("p50", "p99"):
        rows = [
            {"variant": named(name), "ms": quantiles(each)[quantile], "requests": len(each)}
            for name, each in found.items()
        ]
        basis = named("litserve") if "litserve" in servers else named("pipelines")
        note(bench, f"serving, {quantile} at {LOAD:.0%} load", basis, "cost", rows, {"rate": round(rate, 1)})


def memory(bench: Bench, servers: dict[str, Server], offline: Any) -> None:
    """Resident memory, and the bytes of weights."""
    rows = [{"variant": named(name), "ms": server.memory_mb()} for name, server in servers.items()]
    note(bench, "serving, resident memory (MB)", named("pipelines"), "cost", rows, {})
    encoder = sum(x.numel() * x.element_size() for x in offline.encoder.parameters())
    every = sum(x.numel() * x.element_size() for x in offline.parameters())
    rows = [
        {"variant": named("weft"), "ms": every / 1e6},
        {"variant": named("pipelines"), "ms": encoder * len(offline.tasks) / 1e6},
    ]
    note(bench, "serving, weights (MB)", named("pipelines"), "cost", rows, {})


def all_tasks(bench: Bench, bundle: Path, requests: list[dict[str, Any]], rounds: int, device: str) -> None:
    """One text for one task and for all tasks that read one text, heads only, one request at a time."""
    server = Server("weft", bundle, free_port(), device, requests[0])
    try:
        pairs = [request for request in requests if "text_a" in request][:100]
        taken: dict[str, list[float]] = {"one task": [], "all tasks": []}
        for _ in range(rounds):
            for name in taken:
                keys = {"tasks": "all"} if name == "all tasks" else {"task": "mnli"}
                for pair in pairs:
                    body = {**keys, "text_a": pair["text_a"], "text_b": pair["text_b"]}
                    began = time.perf_counter()
                    request = urllib.request.Request(server.url, json.dumps(body).encode())
                    urllib.request.urlopen(request).read()
                    taken[name].append(1e3 * (time.perf_counter() - began))
        rows = [{"variant": name, "ms": statistics.median(each)} for name, each in taken.items()]
        note(bench, "serving, one text, heads only", "one task", "cost", rows, {"texts": len(pairs)})
    finally:
        server.stop()


def note(
    bench: Bench, name: str, basis: str, shows: str, rows: list[dict[str, Any]], facts: dict[str, Any]
) -> None:
    """Record rows that were measured in turns."""
    work = Work("serving", name, basis, shows, facts, rows)
    below = work.ms(basis)
    for row in rows:
        if below is not None:
            row["ratio"] = row["ms"] / below if shows == "cost" else below / row["ms"]
        bench.say(f"    {name}: {row}")
    bench.note(work)


def named(name: str) -> str:
    """The name of a row."""
    words = {"weft": "weft serve", "pipelines": "one pipeline per task", "litserve": "LitServe with weft"}
    return words.get(name, name)


def free_port() -> int:
    """A port that nobody uses."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])
