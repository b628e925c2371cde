"""Compare the cost of MT-Uncertainty and its cheaper forms with 1/T sampling, and the data that each uses.

    python -m benchmarks.experiments.mt_uncertainty --data DATA [--steps 300] [--method full] [--ungrouped]

Real data: cola, rte, mrpc and stsb of GLUE on `minilm`. The loops of the library train side by side in one
process and take turns step by step: `uniform` with mixed batches; `mt_uncertainty`, whose steps are always
mixed and first evaluate one batch per task without gradients; and each of its cheaper forms (`--forms none`
leaves them out). Prints the time of a step (median, quartiles, mean) and of its choice, the ratio to
`uniform`, also of CPU time, the share of the data that was trained on, and the longest stretch of steps that
a task went without an example. With `every` the steps differ, so that the ratio of means counts. Writes
benchmarks/out/mt_uncertainty.json.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import torch

import weft
from weft.data.splits.task_rows import rows_of_task
from weft.data.tokens.tokens import Tokens, tokenize
from weft.training.run.loop import Loop

Rows = dict[tuple[str, str], Tokens]
Taken = dict[str, list[float]]

TASKS = ["cola", "rte", "mrpc", "stsb"]
BASE, PLAIN = "uniform", "mt_uncertainty"
FORMS: dict[str, dict[str, float]] = {
    "every 2": {"every": 2},
    "every 4": {"every": 4},
    "half the candidates": {"candidates": 1 / 2},
    "a quarter": {"candidates": 1 / 4},
    "exit layer 3": {"exit_layer": 3},
    "exit layer 1": {"exit_layer": 1},
    "every 2, exit layer 3": {"every": 2, "exit_layer": 3},
    "every 4, half": {"every": 4, "candidates": 1 / 2},
}
"""The cheaper forms of MT-Uncertainty: settings of the sampler; `candidates` as a share of the batch size."""

WARM = 3
"""Warm-up steps, which are not counted."""


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", required=True, help="folder with the files of GLUE")
    parser.add_argument("--tasks", nargs="+", default=TASKS)
    parser.add_argument("--encoder", default="minilm")
    parser.add_argument("--method", default="full")
    for name, default in (("steps", 300), ("batch-size", 32), ("max-length", 128), ("threads", 2)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--forms", nargs="*", default=list(FORMS), choices=[*FORMS, "none"])
    parser.add_argument("--ungrouped", action="store_true", help="without length-bucketed batches")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    tasks = weft.load_suite("glue", args.data, args.tasks)
    rows: Rows = {}
    loops: dict[str, Loop] = {}
    with tempfile.TemporaryDirectory() as folder:
        for name in (BASE, PLAIN, *(form for form in args.forms if form != "none")):
            loops[name] = build(name, args, tasks, rows, Path(folder) / name)
        seconds, cpu, looking = timed(loops, args.steps)
    report(loops, seconds, cpu, looking, args)


def build(
    sampler: str,
    args: argparse.Namespace,
    tasks: list[weft.Task],
    rows: dict[tuple[str, str], Tokens],
    out: Path,
) -> Loop:
    """A new model and its training loop, over the same rows."""
    model = weft.Model(args.encoder, tasks, args.method, max_length=args.max_length)
    if not rows:
        for task in tasks:
            for key, split in rows_of_task(task).splits.items():
                rows[key] = tokenize(split, model.tokenizer, args.max_length)
    training = weft.Training(
        steps=args.steps + WARM,
        batch_size=args.batch_size,
        max_length=args.max_length,
        sampler=settings_of(sampler, args.batch_size),
        mixed=True,
        group_by_length=not args.ungrouped,
        lr=model.method.default_lr,
    )
    train = [rows[task.name, "train"] for task in tasks]
    return Loop(model, training, train, {}, out, [task.name for task in tasks])


def settings_of(sampler: str, batch_size: int) -> object:
    """The setting `train.sampler` of a loop."""
    if sampler == BASE:
        return BASE
    form = dict(FORMS.get(sampler, {}))
    if "candidates" in form:
        form["candidates"] = round(form["candidates"] * batch_size)
    return {"use": PLAIN, **form}


def timed(loops: dict[str, Loop], steps: int) -> tuple[Taken, Taken, Taken]:
    """The wall time and CPU time of each step of each loop, and the CPU time of its choice."""
    seconds: Taken = {name: [] for name in loops}
    cpu: Taken = {name: [] for name in loops}
    looking: Taken = {name: [] for name in loops}
    for number in range(steps + WARM):
        # the loops take turns to go first
        for name in list(loops) if number % 2 else list(loops)[::-1]:
            loop = loops[name]
            start, worked = time.perf_counter(), time.process_time()
            prepared = loop._next()
            chosen = time.process_time()
            loop._step(prepared)
            seconds[name].append(time.perf_counter() - start)
            cpu[name].append(time.process_time() - worked)
            looking[name].append(chosen - worked)
            loop._count(prepared.step)
        if (number + 1) % 10 == 0:
            print(f"step {number + 1} of {steps + WARM}", flush=True)
    cut = [{name: taken[WARM:] for name, taken in both.items()} for both in (seconds, cpu, looking)]
    return cut[0], cut[1], cut[2]


def report(
    loops: dict[str, Loop], seconds: Taken, cpu: Taken, looking: Taken, args: argparse.Namespace
) -> None:
    """Print and write the results."""
    results: dict[str, Any] = {}
    sizes = dict(zip(args.tasks, (len(tokens) for tokens in loops[BASE].train), strict=True))
    grouped = "in any order" if args.ungrouped else "length-bucketed"
    what = f"batches of {args.batch_size} {grouped}, {args.threads} threads"
    print(f"{sizes}, {args.encoder}, {args.method}, {what}")
    for name, taken in seconds.items():
        results[name] = {
            **spread(taken),
            "cpu": spread(cpu[name]),
            "choice": spread(looking[name]),
            **loops[name].components.log_fields("evaluation", []),
        }
    for name, result in results.items():
        base, mean = results[BASE], result["cpu"]["mean"]
        result["ratio"] = {
            "of_medians": result["median"] / base["median"],
            "of_means": result["mean"] / base["mean"],
            "of_cpu_medians": result["cpu"]["median"] / base["cpu"]["median"],
            "of_cpu_means": mean / base["cpu"]["mean"],
            "choice": result["choice"]["mean"] / base["cpu"]["mean"],
        }
        ratio = ", ".join(f"{key} {value:.2f}" for key, value in result["ratio"].items())
        print(f"{name:24} {words(result)}; CPU {mean * 1e3:.0f}; ratio to {BASE}: {ratio}")
    for name in seconds:
        used = results[name]["usage"]
        by_task = ", ".join(f"{task} {share:.1%}" for task, share in used["by_task"].items())
        longest = ", ".join(f"{task} {steps}" for task, steps in used["longest"].items())
        print(f"{name}: {used['share']:.1%} of the data used ({by_task}); longest stretch without: {longest}")
    out = Path(__file__).parents[1] / "out"
    out.mkdir(exist_ok=True)
    machine = {"machine": platform.processor() or platform.machine(), "torch": torch.__version__}
    settings = {key: value for key, value in vars(args).items() if key != "data"}
    (out / "mt_uncertainty.json").write_text(json.dumps({**settings, **machine, **results}, indent=1))


def spread(taken: list[float]) -> dict[str, float]:
    """Median, quartiles and mean."""
    low, middle, high = statistics.quantiles(taken, n=4)
    return {"median": middle, "low": low, "high": high, "mean": statistics.mean(taken)}


def words(found: dict[str, float]) -> str:
    low, middle, high, mean = (found[key] * 1e3 for key in ("low", "median", "high", "mean"))
    return f"{middle:7.0f} ms a step ({low:.0f} to {high:.0f}), mean {mean:.0f}"


if __name__ == "__main__":
    main()
