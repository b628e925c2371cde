"""Compare heads that start from a probe with heads that start at random: GLUE-8 and CS 224N, short runs.

    python -m benchmarks.experiments.head_start --root DATA --out FILE.jsonl [--jobs 8] [--seconds 540]
    python -m benchmarks.experiments.head_start --out FILE.jsonl --table

Each method is trained with each start, number of steps and seed, otherwise with its defaults. Validation is
halved: one half chooses the best step, the other is reported. One line of JSON is added to FILE when a run
ends; runs that FILE has are not made again. `--table` prints the average score of both starts, its mean over
the seeds, and the mean and standard deviation of their difference.
"""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
import time
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.experiments.pool import Job, pooled
from benchmarks.experiments.shared_gpu import (
    import_for_children,
    mps,
    prepare_environment,
    start_method,
    temporary,
)

STARTS = ("random", "probe")
METHODS = ("full", "lora", "pals", "frozen")
SUITES = {"glue": None, "cs224n": ("sst", "quora", "sts")}
"""The tasks of each suite; None: GLUE-8. Heads of CS 224N have two layers and `sts` has none: no probe fits
them. `--layers 1` gives all heads one layer."""


def main() -> None:
    args = arguments()
    out = Path(args.out)
    if args.table:
        print(table(out))
        return
    prepare_environment(args.jobs)
    from benchmarks.experiments.glue_runs import TASKS, Case, Setup, data_of, one_run

    began = time.monotonic()
    import_for_children()
    done = {run["key"] for run in read(out)}
    jobs = []
    for suite, names in SUITES.items():
        if suite not in args.suites:
            continue
        tasks = names or TASKS
        setup = Setup(
            args.root,
            args.encoder,
            0,
            limit_rows=args.limit_rows,
            suite=suite,
            tasks=tasks,
            head_layers=args.layers,
        )
        data_of(setup)
        cases = itertools.product(sorted(args.steps, reverse=True), args.methods, args.seeds, args.starts)
        for steps, method, seed, start in cases:
            more = {"steps": steps, "evaluate_every": max(1, steps // 5), "baselines": False}
            name = suite if args.layers is None else f"{suite} ({args.layers} layer)"
            row = f"{name}-{method}-{start}-{steps}"
            case = Case(row, method, sampler="square_root", seed=seed, more=more, head_start=start)
            if case.key not in done:
                jobs.append(Job(case.key, f"{suite}-{method}", partial(one_run, case, setup)))
    print(f"{len(jobs)} runs", flush=True)
    out.parent.mkdir(parents=True, exist_ok=True)
    with mps(args.mps), out.open("a", encoding="utf-8") as file:
        start_with, _ = start_method()
        logs = Path(args.work) / "logs"
        for key, result in pooled(jobs, logs, at_once=args.jobs, start=start_with):
            file.write(json.dumps({"key": key, **result}) + "\n")
            file.flush()
            print(f"{time.monotonic() - began:6.0f} s  {key}  {result.get('error', '')}", flush=True)
            if args.seconds is not None and time.monotonic() - began > args.seconds:
                break


def arguments() -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.experiments.head_start")
    parser.add_argument("--root", help="folder with the files of GLUE and CS 224N")
    parser.add_argument("--out", required=True, help="JSON lines file to add to")
    parser.add_argument("--encoder", default="minilm")
    parser.add_argument("--suites", nargs="+", default=list(SUITES))
    parser.add_argument("--methods", nargs="+", default=list(METHODS))
    parser.add_argument("--steps", type=int, nargs="+", default=[300, 2000])
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--starts", nargs="+", default=list(STARTS))
    parser.add_argument("--layers", type=int, help="layers of every head; default: those of the suite")
    parser.add_argument("--jobs", type=int, default=8)
    parser.add_argument("--limit-rows", type=int, help="at most this many rows per split, for a trial")
    parser.add_argument("--mps", action="store_true", help="several processes on the GPU at once")
    parser.add_argument("--seconds", type=float, help="begin no run after this many seconds")
    parser.add_argument("--table", action="store_true", help="print the table of FILE and end")
    parser.add_argument("--work", default=str(temporary("weft-head-start")))
    return parser.parse_args()


def read(file: Path) -> list[dict[str, Any]]:
    """Return the runs of a file that ended without an error; a key that is there twice counts once."""
    if not file.is_file():
        return []
    runs = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    return list({run["key"]: run for run in runs if "error" not in run}.values())


def table(file: Path) -> str:
    """Return a Markdown table: one row per suite, method and number of steps."""
    scores: dict[tuple[str, str, int], dict[int, dict[str, float]]] = {}
    for run in read(file):
        suite, method, start, _ = run["row"].split("-")
        by_task = run["scores"]["reported"]["tasks"].values()
        mean = 100 * sum(score or 0.0 for score in by_task) / len(by_task)
        scores.setdefault((suite, method, run["steps"]), {}).setdefault(run["seed"], {})[start] = mean
    lines = [
        "| suite | method | steps | seeds | random | probe | difference |",
        "|---|---|---:|---:|---:|---:|---:|",
    ]
    for (suite, method, steps), by_seed in sorted(scores.items()):
        pairs = [(x["random"], x["probe"]) for x in by_seed.values() if len(x) == len(STARTS)]
        if not pairs:
            continue
        gains = [probe - random for random, probe in pairs]
        spread = f" ± {statistics.stdev(gains):.1f}" if len(gains) > 1 else ""
        random, probe = (statistics.mean(x) for x in zip(*pairs, strict=True))
        gain = f"{statistics.mean(gains):+.1f}{spread}"
        lines.append(f"| {suite} | {method} | {steps} | {len(pairs)} | {random:.1f} | {probe:.1f} | {gain} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
