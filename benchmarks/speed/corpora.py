"""Measure `weft predict` of many files: rows per second of each worker beside one process with one thread.

    python -m benchmarks.speed.corpora BUNDLE [--rows 100000] [--files 20] [--workers 2] [--on ray]

The rows are those of `benchmarks.speed.rows`. Every process has one thread. Commands are called as a user
calls them; the time of the same command on a few rows, which is its start, is subtracted. Then the folder is
predicted once more: the command is killed when a third of its files are done, and repeated. Every row must be
there once, with the answer of one process: the label, and probabilities that differ by 2 units of the last of
four digits at most, as batches differ. Prints and writes corpora.json.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from benchmarks.speed.rows import rows_of

FEW = 8
"""The rows of a call that measures the start."""


def main() -> None:
    args = arguments()
    inputs = args.out / "in"
    for folder in (inputs, args.out / "few"):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
    write(inputs, args.rows, args.files, args.out / "one.jsonl")
    write(args.out / "few", FEW * args.workers, args.workers, args.out / "few.jsonl")
    found: dict[str, Any] = {"rows": args.rows, "files": args.files, "workers": args.workers}
    if "single" in args.parts:
        one = [args.bundle, args.out / "one.jsonl", "--id", "n", "--out", args.out / "single.jsonl"]
        few = [args.bundle, args.out / "few.jsonl", "--out", args.out / "few-out.jsonl"]
        found["single"] = speed(args.rows, timed(few), timed(one))
    if "workers" in args.parts:
        how = ["--workers", args.workers, *(["--on", args.on] if args.on else [])]
        few = [args.bundle, args.out / "few" / "*.jsonl", "--out", new(args.out / "few-out"), *how]
        many = [args.bundle, inputs / "*.jsonl", "--id", "n", "--out", new(args.out / "many"), *how]
        found["all workers"] = speed(args.rows, timed(few), timed(many))
    if {"single", "workers"} <= set(args.parts):
        each = found["all workers"]["rows_per_s"] / args.workers
        found["each worker beside one process"] = round(each / found["single"]["rows_per_s"], 3)
    if "killed" in args.parts:
        how = ["--workers", args.workers, *(["--on", args.on] if args.on else [])]
        many = [args.bundle, inputs / "*.jsonl", "--id", "n", "--out", new(args.out / "killed"), *how]
        found["killed"] = killed(many, args.out / "killed", args.files // 3)
        timed(many)
        found["killed"] |= compare(args.out / "killed", args.out / "single.jsonl")
    print(json.dumps(found, indent=1))
    (args.out / "corpora.json").write_text(json.dumps(found, indent=1) + "\n")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("bundle", type=Path)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--files", type=int, default=20)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--on", help="ray: actors of a new cluster on this machine")
    parts = ["single", "workers", "killed"]
    parser.add_argument("--parts", nargs="+", default=parts, choices=parts)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/out/corpora"))
    return parser.parse_args()


def write(folder: Path, rows: int, files: int, one: Path, tasks: Sequence[str] = ()) -> None:
    """Write the same rows as several files and as one; of these tasks in turn, if there are several."""
    source: Iterator[dict[str, Any]]
    source = ({"n": at, "text": row["text"]} for at, row in enumerate(rows_of(rows, 3)))
    if tasks:
        source = ({**row, "task": tasks[row["n"] % len(tasks)]} for row in source)
    lines = (json.dumps(row) + "\n" for row in source)
    with one.open("w") as whole:
        for number in range(files):
            part = list(islice(lines, rows // files + (number < rows % files)))
            (folder / f"{number:04}.jsonl").write_text("".join(part))
            whole.writelines(part)


def new(folder: Path) -> Path:
    """The folder, which is removed first."""
    shutil.rmtree(folder, ignore_errors=True)
    return folder


def command(words: list[object], device: str = "cpu") -> list[str]:
    """The words of a call of `weft predict`."""
    return [sys.executable, "-m", "weft", "predict", *map(str, words), "--device", device, "--quiet"]


def environment(device: str = "cpu") -> dict[str, str]:
    """One thread per process on a CPU; beside a GPU the libraries decide."""
    return {**os.environ, **({"OMP_NUM_THREADS": "1", "RAYON_NUM_THREADS": "1"} if device == "cpu" else {})}


def timed(words: list[object], device: str = "cpu") -> float:
    """The seconds of a command."""
    began = time.perf_counter()
    subprocess.run(command(words, device), env=environment(device), check=True)
    return time.perf_counter() - began


def speed(rows: int, start: float, whole: float) -> dict[str, Any]:
    return {
        "start_s": round(start, 1),
        "whole_s": round(whole, 1),
        "rows_per_s": round(rows / (whole - start), 1),
    }


def killed(words: list[object], out: Path, files: int) -> dict[str, Any]:
    """Kill the command when so many files are done."""
    process = subprocess.Popen(command(words), env=environment())
    while len(list(out.glob("*.jsonl"))) < files:
        if process.poll() is not None:
            raise SystemExit("the command ended before it could be killed")
        time.sleep(0.01)
    process.kill()
    process.wait()
    time.sleep(5)  # workers see that the command is gone, and end
    return {"killed_after_files": len(list(out.glob("*.jsonl")))}


def compare(out: Path, single: Path) -> dict[str, Any]:
    """Compare the rows of all files with those of one process."""
    found = [json.loads(line) for file in sorted(out.glob("*.jsonl")) for line in file.open()]
    expected = [json.loads(line) for line in single.open()]
    same = [row["id"] for row in found] == [row["id"] for row in expected]
    pairs = list(zip(found, expected, strict=False))
    differences = [
        abs(value - other["probabilities"][label])
        for row, other in pairs
        for label, value in row["probabilities"].items()
    ]
    return {
        "rows": len(found),
        "every_row_once_and_in_order": same,
        "same_labels": sum(row["label"] == other["label"] for row, other in pairs),
        "equal_rows": sum(row == other for row, other in pairs),
        "largest_difference": round(max(differences), 6),
    }


if __name__ == "__main__":
    main()
