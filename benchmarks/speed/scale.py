"""Measure the GPU rows of docs/scale.md: texts per second of `weft predict` by workers, and cold starts.

    python -m benchmarks.speed.scale [--minilm FOLDER] [--rows 100000] [--files 16] [--workers 1 4]
        [--tasks 8] [--device cuda] [--precision float32] [--only start serve workers] [--seconds 35]
        [--out FILE] [--quick]

Makes a bundle of MiniLM with LoRA of rank 8 and random weights, and files of the rows of
`benchmarks.speed.corpora`, tasks in turn. Commands are called as a user calls them, each a process of its
own:

- `weft predict BUNDLE --text …` and `weft serve BUNDLE`, from the shell to the first answer; each is
  repeated, with a warm file cache, while time is left;
- `weft predict BUNDLE shards/*.jsonl --workers N`. The time of the same command on a few rows, which is its
  start, is subtracted.

What fails is reported with its reason. Prints each figure when it is there, and writes
benchmarks/out/scale-DEVICE.json. `--quick` uses a tiny encoder and few rows.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from benchmarks.speed.bench import first_line
from benchmarks.speed.bundles import made_bundle
from benchmarks.speed.corpora import environment, new, speed, timed, write
from benchmarks.speed.encoders import minilm
from benchmarks.speed.machine import in_words, machine
from benchmarks.speed.results import OUT
from benchmarks.speed.serving.measure import free_port
from benchmarks.speed.serving.servers import Server

PARTS = ("start", "serve", "workers")
TEXT = "A wonderful film."
FEW = 8
"""Rows per worker of a call that measures the start."""


def main() -> None:
    args = arguments()
    found: dict[str, Any] = {"machine": machine(torch.device(args.device))}
    found |= {name: getattr(args, name) for name in ("rows", "files", "tasks", "precision")}
    print(in_words(found["machine"]), flush=True)
    until = time.monotonic() + args.seconds
    out = args.out or OUT / f"scale-{args.device}.json"
    out.parent.mkdir(parents=True, exist_ok=True)

    def note(name: str, measure: Callable[[], Any]) -> None:
        """Record a figure, or why there is none; a command that fails must not hide the others."""
        try:
            found[name] = measure()
        except Exception as failed:
            found[name] = {"not measured": first_line(failed)}
        print(f"{name}: {found[name]}", flush=True)
        out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")

    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        encoder = "random:bert-tiny@minilm" if args.quick else minilm(args.minilm)
        bundle, tasks = made_bundle(folder / "bundle", encoder, args.tasks)
        predict = [bundle, "--task", tasks[0], "--text", TEXT, "--precision", args.precision]
        if "start" in args.only:
            note("predict --text, s", lambda: starts(lambda: first_text(predict, args.device), until))
        if "serve" in args.only:
            request = {"task": tasks[0], "text": TEXT}
            note("serve, s", lambda: starts(lambda: first_answer(bundle, request, args.device), until))
        for workers in args.workers if "workers" in args.only else ():
            note(f"predict, {workers} workers", lambda w=workers: corpus(folder, bundle, tasks, w, args))
    print(f"{out}", flush=True)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minilm", help="folder with MiniLM's files; default: the installed package")
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--files", type=int, default=16)
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 4])
    parser.add_argument("--tasks", type=int, default=8)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--precision", default="float32", choices=["float32", "bf16"])
    parser.add_argument("--only", nargs="+", default=list(PARTS), choices=PARTS)
    parser.add_argument("--seconds", type=float, default=35.0, help="after this time no start is repeated")
    parser.add_argument("--out", type=Path, help="JSON file to write")
    parser.add_argument("--quick", action="store_true", help="does everything run? A tiny encoder, few rows")
    args = parser.parse_args()
    if args.quick:
        args.rows, args.files, args.workers, args.seconds = 200, 2, [1], 0.0
    return args


def starts(start: Callable[[], float], until: float) -> dict[str, Any]:
    """The seconds of the first start, and of up to two more while time is left."""
    seconds = [start()]
    while len(seconds) < 3 and time.monotonic() + seconds[-1] < until:
        seconds.append(start())
    return {"first": round(seconds[0], 2), "all": [round(each, 2) for each in seconds]}


def first_text(words: list[Any], device: str) -> float:
    """The seconds of `weft predict --text`, until it has ended."""
    command = [sys.executable, "-m", "weft", "predict", *map(str, words), "--device", device]
    began = time.perf_counter()
    subprocess.run(command, env=environment(device), check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - began


def first_answer(bundle: Path, request: dict[str, Any], device: str) -> float:
    """The seconds from the start of `weft serve` to its first answer."""
    began = time.perf_counter()
    server = Server("weft", bundle, free_port(), device, request, every=0.02)
    seconds = time.perf_counter() - began
    server.stop()
    return seconds


def corpus(
    folder: Path, bundle: Path, tasks: list[str], workers: int, args: argparse.Namespace
) -> dict[str, Any]:
    """Texts per second of a folder of files; all workers share the device."""
    for name, rows, files in (("many", args.rows, args.files), ("few", FEW * workers, workers)):
        new(folder / name).mkdir()
        write(folder / name, rows, files, folder / f"{name}.jsonl", tasks)
    how = ["--workers", workers, "--precision", args.precision, "--id", "n"]
    taken = {
        name: timed(
            [bundle, folder / name / "*.jsonl", "--out", new(folder / f"{name}-out"), *how], args.device
        )
        for name in ("few", "many")
    }
    answered = sum(1 for file in (folder / "many-out").glob("*.jsonl") for _ in file.open())
    return {**speed(args.rows, taken["few"], taken["many"]), "answered": answered}


if __name__ == "__main__":
    main()
