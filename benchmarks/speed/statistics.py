"""Measure the statistics of `weft compare`: a grid of runs over GLUE's validation sets.

    python -m benchmarks.speed.statistics [--variants 25] [--seeds 5] [--resamples 10000] [--workers 2]

The runs are simulated, with the sizes and metrics of GLUE (eight tasks, nine sets); what is measured does not
depend on the answers. Prints the size of the packed row statistics, the seconds of each set on one core, and
the seconds and peak memory of a whole comparison.
"""

from __future__ import annotations

import argparse
import os
import resource
import time

from tests.support.simulated_glue import simulated_run

from benchmarks.speed.machine import in_words, machine
from weft.evaluation.rows import RunRows, pack, unpack
from weft.experiments.statistics import against_baseline, compare
from weft.experiments.statistics.bootstrap import resampled_metrics


def peak() -> float:
    """The largest memory of this process so far, in MB; Linux reports it in kB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def storage(run: RunRows) -> None:
    """The bytes of each set, and of the whole run."""
    print(f"{'set':12}{'rows':>8}{'bytes':>8}  metrics")
    for name, rows in run.sets.items():
        size = len(pack(RunRows({name: rows})))
        print(f"{name:12}{rows.rows:8,}{size:8,}  {', '.join(rows.scores)}")
    print(f"{'together':12}{sum(r.rows for r in run.sets.values()):8,}{len(pack(run)):8,}\n")


def sets(runs: list[RunRows], resamples: int) -> None:
    """The seconds of the bootstrap of each set, without other sets beside it."""
    print(f"{'set':12}{'seconds':>9}")
    for name in runs[0].sets:
        began = time.perf_counter()
        resampled_metrics([run.sets[name] for run in runs], resamples)
        print(f"{name:12}{time.perf_counter() - began:9.1f}")
    print()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--variants", type=int, default=25)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--resamples", type=int, default=10_000)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--each", action="store_true", help="also measure each set")
    args = parser.parse_args()
    import torch

    print(in_words(machine(torch.device("cpu"))), f"OMP_NUM_THREADS={os.environ.get('OMP_NUM_THREADS')}")
    storage(simulated_run(0, 0))
    packed = {
        f"v{variant}": {seed: pack(simulated_run(variant, seed)) for seed in range(args.seeds)}
        for variant in range(args.variants)
    }
    before = peak()
    began = time.perf_counter()
    runs = {v: {s: unpack(data) for s, data in seeds.items()} for v, seeds in packed.items()}
    unpacked = time.perf_counter() - began
    if args.each:
        sets([run for seeds in runs.values() for run in seeds.values()], args.resamples)
    began = time.perf_counter()
    compare(runs, against_baseline(list(runs), "v0"), "glue9", args.resamples, workers=args.workers)
    seconds = time.perf_counter() - began
    print(
        f"{args.variants} variants × {args.seeds} seeds × 8 tasks, {args.resamples:,} resamples: "
        f"unpacked in {unpacked:.1f} s, compared in {seconds:.1f} s; "
        f"peak memory {peak():,.0f} MB, of which {before:,.0f} MB before"
    )


if __name__ == "__main__":
    main()
