"""Measure what grows with the number of rows: time and memory of `weft check`, `train`, `evaluate` …

    python -m benchmarks.speed.rows [--rows 100000 1000000 5000000] [--forms jsonl csv parquet] [--out FOLDER]
    python -m benchmarks.speed.rows --rows 1000 --forms jsonl --evaluated 1000000 --only train evaluate

The rows are drawn from a seed and written as jsonl, csv or parquet. Every command is a process of its own,
called as a user calls it; its peak memory is the one that the system reports when it ends. The encoder is
tiny and random, and few steps are trained: what is left is reading, checking, tokenizing, the cache, the plan
and evaluating. With `--evaluated N` there are N validation rows, all of which `weft evaluate` evaluates, and
training only a few. Prints one line per command and writes rows.json into the folder.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

VALIDATION = 50
"""One row of validation for so many of training, at most `MOST`."""
MOST = 20_000
FEW = 1000
"""The rows that training evaluates if `--evaluated` is given."""
WORDS = 12
LABELS = ("no", "yes")
SYLLABLES = [first + second for first in "bdfgklmnprst" for second in ("a", "e", "i", "o", "u", "an", "er")]


def main() -> None:
    args = arguments()
    args.out.mkdir(parents=True, exist_ok=True)
    found: list[dict[str, Any]] = []
    for rows in args.rows:
        for form in args.forms:
            folder = args.out / f"{form}-{rows}"
            folder.mkdir(parents=True, exist_ok=True)
            run = write_inputs(folder, form, rows, args.evaluated)
            for name, command in commands(run, folder).items():
                if args.only and name not in args.only and name.partition(",")[0] not in args.only:
                    continue
                row = {"rows": rows, "form": form, "command": name, **measured(command, folder)}
                found.append(row)
                print("  ".join(f"{key} {value}" for key, value in row.items()), flush=True)
            if not args.keep:
                shutil.rmtree(folder)
    (args.out / "rows.json").write_text(json.dumps(found, indent=1) + "\n")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, nargs="+", default=[100_000, 1_000_000, 5_000_000])
    parser.add_argument("--forms", nargs="+", default=["jsonl", "csv", "parquet"])
    parser.add_argument(
        "--only", nargs="+", help="commands to measure, such as train or evaluate; default: all"
    )
    parser.add_argument(
        "--evaluated", type=int, help=f"validation rows; default: 1/{VALIDATION}, at most {MOST}"
    )
    parser.add_argument("--keep", action="store_true", help="keep the files")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/out/rows"))
    return parser.parse_args()


def rows_of(number: int, seed: int) -> Iterator[dict[str, str]]:
    """Rows whose label is a function of the text: whether the first word is in the first half of the list."""
    draw = random.Random(seed)
    words = ["".join(draw.choices(SYLLABLES, k=draw.randint(1, 3))) for _ in range(20_000)]
    for at in range(number):
        chosen = draw.choices(range(len(words)), k=draw.randint(WORDS // 2, WORDS + WORDS // 2))
        yield {
            "text": f"{' '.join(words[index] for index in chosen)} {at}",
            "label": LABELS[chosen[0] < len(words) // 2],
        }


def write_inputs(folder: Path, form: str, rows: int, evaluated: int | None) -> Path:
    """Write the files and a run file; returns the latter."""
    validation = evaluated or min(MOST, max(1000, rows // VALIDATION))
    files = {}
    for seed, (split, number) in enumerate({"train": rows, "validation": validation}.items()):
        files[split] = folder / f"{split}.{form}"
        if not files[split].exists():
            write_rows(files[split], number, seed)
    train = {"steps": 20, "batch_size": 32, "evaluate_every": 20, "lr": 0.001, "max_length": 32}
    if evaluated:  # else training would evaluate all of them too
        train |= {"evaluate_rows": FEW, "last_evaluation": "subset", "baselines": False}
    run = {
        "encoder": "random:bert-tiny@minilm",
        "method": "lora",
        "tasks": {"sentiment": {"labels": list(LABELS), **{split: str(f) for split, f in files.items()}}},
        "train": train,
    }
    path = folder / "run.yaml"
    path.write_text(json.dumps(run))  # YAML holds JSON
    return path


def write_rows(file: Path, number: int, seed: int) -> None:
    """Write rows in the format that the name ends in."""
    rows = rows_of(number, seed)
    if file.suffix == ".parquet":
        import pyarrow as pa
        import pyarrow.parquet as pq

        schema = pa.schema([("text", pa.string()), ("label", pa.string())])
        with pq.ParquetWriter(file, schema) as writer:
            while batch := list(islice(rows, 65_536)):
                writer.write_table(pa.Table.from_pylist(batch, schema))
        return
    with file.open("w", encoding="utf-8", newline="") as stream:
        if file.suffix == ".jsonl":
            stream.writelines(json.dumps(row) + "\n" for row in rows)
            return
        writer = csv.DictWriter(stream, ["text", "label"])
        writer.writeheader()
        writer.writerows(rows)


def commands(run: Path, folder: Path) -> dict[str, list[str]]:
    """The commands in their order: the first training fills the token cache, the second one finds it."""
    out = str(folder / "run")
    train = ["train", str(run), "--device", "cpu", "--out"]
    return {
        "check": ["check", str(run)],
        "train, cold cache": [*train, out],
        "train, warm cache": [*train, f"{out}-again"],
        "show plan": ["show", "plan", str(run)],
        "evaluate": ["evaluate", out, "--device", "cpu"],
        "predict": [
            *("predict", out, str(folder / f"validation{_ending(folder)}"), "--device", "cpu"),
            *("--out", str(folder / "predictions.jsonl")),
        ],
    }


def _ending(folder: Path) -> str:
    return next(folder.glob("validation.*")).suffix


def measured(words: list[str], folder: Path) -> dict[str, Any]:
    """Run a command: its seconds, those of all its threads, its peak memory in MB and its exit code."""
    environment = {**os.environ, "WEFT_CACHE": str(folder / "cache")}
    began = time.perf_counter()
    with (folder / "log.txt").open("ab") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "weft", *words], stdout=log, stderr=log, env=environment
        )
        _, status, usage = os.wait4(process.pid, 0)
    scale = 1 if sys.platform == "darwin" else 1024  # in KiB on Linux, in bytes on macOS
    return {
        "seconds": round(time.perf_counter() - began, 1),
        "cpu_s": round(usage.ru_utime + usage.ru_stime, 1),  # a busy machine changes it little
        "peak_mb": round(usage.ru_maxrss * scale / 1e6),
        "exit": os.waitstatus_to_exitcode(status),
    }


if __name__ == "__main__":
    main()
