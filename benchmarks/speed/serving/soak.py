"""`make soak`: twenty minutes at 80 % load; fails if a request fails or if memory grows.

    python -m benchmarks.speed.serving.soak [--minutes 20] [--root DATA]

Prints one line per ten seconds, and at the end the memory of the second quarter beside that of the last one:
the least that was seen, because memory that is free is given back every few seconds only.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

import weft
from benchmarks.speed.encoders import minilm
from benchmarks.speed.serving.measure import free_port, send, texts_of, write_bodies
from benchmarks.speed.serving.servers import Server

GROWTH = 0.02
"""Memory may grow by this share between the second and the last quarter."""
PORTION = 10.0


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--minutes", type=float, default=20.0)
    parser.add_argument("--root", default=str(Path(__file__).parents[4] / "shared" / "data"))
    args = parser.parse_args()
    glue = Path(args.root).is_dir()
    tasks = weft.load_suite("glue", args.root) if glue else weft.load_suite("swatch")
    requests = texts_of(tasks)
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        bundle = weft.Model(minilm(None), tasks, "lora", max_length=128).save(place / "bundle")
        bodies = write_bodies(place / "bodies", requests, 1)
        server = Server("weft", bundle, free_port(), "cpu", next(iter(requests)))
        try:
            full = send(server.url, bodies, 10_000, PORTION, 64, 0)["per_s"]
            print(f"full load: {full:.0f} requests/s; now {0.8 * full:.0f}", flush=True)
            memory, wrong = [], 0
            for number in range(max(4, round(args.minutes * 60 / PORTION))):
                found = send(server.url, bodies, 0.8 * full, PORTION, 2048, number)
                wrong += sum(count for status, count in found["statuses"].items() if status != "200")
                memory.append(server.memory_mb())
                print(
                    f"{number}: {found['per_s']:.0f}/s, p99 {found['p99']:.0f} ms, {memory[-1]:.0f} MB",
                    flush=True,
                )
        finally:
            server.stop()
    quarter = len(memory) // 4
    early, late = (min(part) for part in (memory[quarter : 2 * quarter], memory[-quarter:]))
    print(f"failed requests: {wrong}; memory: second quarter {early:.0f} MB, last {late:.0f} MB")
    sys.exit(1 if wrong or late > (1 + GROWTH) * early else 0)


if __name__ == "__main__":
    main()
