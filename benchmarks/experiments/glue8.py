"""Train `full` on GLUE-8 as a user would: 60,000 steps of 32 with five evaluations of whole dev sets.

    python -m benchmarks.experiments.glue8 --root DATA      # must take under 240 s on an H200
    python -m benchmarks.experiments.glue8 --root DATA --engines graph,eager --seeds 1,2,3 --steps 2000

The first prints the total seconds and their parts: compiling and capturing, evaluation, checkpoints,
waiting for data. The second trains with each engine and seed, one after another, and prints both scores,
their difference seed by seed, and how far seeds alone are apart. Both write JSON to benchmarks/out. For
comparisons of methods and settings use `weft compare`.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from benchmarks.experiments.glue_runs import Setup

EVALUATIONS = 5
LIMIT = 240.0
"""Seconds that the long run may take on an H200."""


def main() -> None:
    args = arguments()
    from benchmarks.experiments.glue_runs import Setup

    setup = Setup(
        str(Path(args.root).resolve()),
        args.encoder,
        args.steps or (2000 if args.engines else 60_000),
        args.batch_size,
        args.max_length,
        args.limit_rows,
        work=args.work,
    )
    out = Path(args.out)
    out.parent.mkdir(parents=True, exist_ok=True)
    found = engines(setup, args) if args.engines else long_run(setup, args)
    out.write_text(json.dumps(found, indent=1) + "\n")


def listed(text: str) -> list[str]:
    """Split the text A,B into a list."""
    return [part.strip() for part in text.split(",")]


def arguments() -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--root", required=True, help="folder with the files of GLUE")
    parser.add_argument("--encoder", default="minilm")
    parser.add_argument("--method", default="full")
    parser.add_argument(
        "--engines",
        type=listed,
        help="engines to compare, as A,B; default: one long run with the default engine",
    )
    parser.add_argument("--seeds", type=lambda text: list(map(int, listed(text))), default=[1, 2, 3])
    parser.add_argument("--steps", type=int, help="number of steps; default: 60,000, or 2,000 with --engines")
    for name, default in (("batch-size", 32), ("max-length", 128)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument(
        "--limit-rows", type=int, help="use at most this many rows per split, for a trial; default: all"
    )
    parser.add_argument("--lr", type=float, help="learning rate; default: the method's")
    parser.add_argument("--out", default="benchmarks/out/glue8.json")
    parser.add_argument("--work", default=str(Path(tempfile.gettempdir()) / "weft-glue8"))
    return parser.parse_args()


def long_run(setup: Setup, args: argparse.Namespace) -> dict[str, Any]:
    """Train once, with everything that a user's run has, and print where the time was spent."""
    from benchmarks.experiments.glue_runs import Case, average, data_of, one_run

    began = time.perf_counter()
    data_of(setup)
    reading = time.perf_counter() - began
    every = max(1, setup.steps // EVALUATIONS)
    more = {"evaluate_every": every, "evaluate_rows": None, "checkpoint_every": every}
    found = one_run(Case("long", args.method, args.lr, more=more, keep=True), setup)
    spent, engine = found["seconds"], found["engine_used"]
    print(f"{found['machine']['device']}, {setup.steps} steps of {setup.batch_size}, {setup.encoder}")
    print(f"  training, from weft.train's call to its return    {spent['train']:8.1f} s  (limit {LIMIT:.0f})")
    parts = ("compiling", "evaluation", "checkpoints")
    for part in parts:
        print(f"  {'of it ' + part:50}{spent[part]:8.1f} s")
    print(f"  {'of it waiting for batches':50}{engine['waited']:8.1f} s")
    rest = spent["train"] - sum(spent[part] for part in parts)
    print(f"  {'a step, all else taken together':50}{1e3 * rest / setup.steps:8.2f} ms")
    print(f"  {'before it: reading and tokenizing all rows':50}{reading:8.1f} s")
    print(f"  engine {engine['name']}, padded to {engine['lengths']}, waste {engine['waste']}")
    scores = found["scores"]
    told = "  ".join(f"{name} {100 * (score or 0):.1f}" for name, score in scores["tasks"].items())
    print(f"  average {average(scores):.2f}  {told}", flush=True)
    return {**found, "reading": round(reading, 2), "limit": LIMIT}


def engines(setup: Setup, args: argparse.Namespace) -> dict[str, Any]:
    """Train every engine with every seed, and compare their scores."""
    from benchmarks.experiments.glue_runs import Case, data_of, one_run

    data_of(setup)
    runs: dict[str, dict[int, Any]] = {engine: {} for engine in args.engines}
    for engine in args.engines:
        for seed in args.seeds:
            result = one_run(Case("engines", args.method, args.lr, engine=engine, seed=seed), setup)
            runs[engine][seed] = result
            print(f"{engine}, seed {seed}: {result['seconds']['train']:.1f} s", flush=True)
    return compare(runs, args.engines, args.seeds, setup.steps)


def compare(
    runs: dict[str, dict[int, Any]], names: list[str], seeds: list[int], steps: int
) -> dict[str, Any]:
    """Print each task's scores by engine and seed, the differences, and the variation between seeds."""
    from benchmarks.experiments.glue_runs import average

    scores: dict[str, dict[str, list[float]]] = {}
    for name in names:
        own = [runs[name][seed]["scores"] for seed in seeds]
        by_task = {task: [100 * (one["tasks"][task] or 0.0) for one in own] for task in own[0]["tasks"]}
        scores[name] = {**by_task, "average": [average(one) for one in own]}
    first = names[0]
    print(f"{steps} steps, seeds {seeds}; scores of each, difference to {first}, in percent")
    told: dict[str, Any] = {}
    for task in scores[first]:
        for name in names[1:]:
            found = difference(scores[first][task], scores[name][task])
            told.setdefault(name, {})[task] = found
            ours, theirs = (statistics.mean(scores[n][task]) for n in (first, name))
            print(
                f"  {task:8} {first} {ours:6.2f}  {name} {theirs:6.2f}  difference {found['mean']:+.2f} "
                f"± {found['error']:.2f}  (seeds alone: ± {found['seeds']:.2f})"
            )
    spent = {name: [runs[name][seed]["seconds"]["train"] for seed in seeds] for name in names}
    some = runs[first][seeds[0]]
    facts = {"steps": steps, "seeds": seeds, "machine": some["machine"], "lr": some["lr"]}
    used = {name: runs[name][seeds[0]]["engine_used"]["name"] for name in names}
    if used != {name: name for name in names}:
        print(f"engines that ran in fact: {used}")
    return {**facts, "used": used, "scores": scores, "differences": told, "seconds": spent}


def difference(first: list[float], second: list[float]) -> dict[str, float]:
    """Compute first − second: the mean over seeds, its standard error, and the variation between seeds.

    `seeds` is the standard error of a difference of two means of n runs with different seeds, s·√(2/n).
    """
    each = [a - b for a, b in zip(first, second, strict=True)]
    count = len(each)
    if count < 2:
        return {"mean": each[0], "error": math.nan, "seeds": math.nan}
    spread = math.sqrt((statistics.variance(first) + statistics.variance(second)) / 2)
    return {
        "mean": statistics.mean(each),
        "error": statistics.stdev(each) / math.sqrt(count),
        "seeds": spread * math.sqrt(2 / count),
    }


if __name__ == "__main__":
    main()
