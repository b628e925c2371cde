"""Compare merged per-task gradients with the plain backward pass of the same mixed batch, in one run.

    python -m benchmarks.experiments.surgery [--tasks 3 8 24] [--methods full lora] [--conflict pcgrad]
        [--rows 48] [--length 32] [--rounds 9] [--threads 1]

Plain: one forward and one backward of the mixed batch. Surgery: one of each for every task present, then the
Gramian, its weights and the weighted sum. `merge` is that last part alone. The two take turns. The ratio is
that of CPU time: with one thread other processes disturb it less than the wall clock. Memory is the growth
of a separate process over two steps, relative to the model with its gradients (without optimizer).
Prints medians, quartiles and ratios, and writes benchmarks/out/surgery.json.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import platform
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch

import weft
from weft.model.losses import example_weights
from weft.training.conflict import TaskGradients, build_conflict

METHODS = {"full": "full", "lora": {"use": "lora", "rank": 8, "share": "all"}}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--tasks", type=int, nargs="+", default=[3, 8, 24])
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=list(METHODS))
    parser.add_argument("--conflict", default="pcgrad")
    for name, default in (("rows", 48), ("length", 32), ("rounds", 9)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--threads", type=int)
    parser.add_argument("--memory-of", choices=["plain", "surgery"], help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.threads:
        torch.set_num_threads(args.threads)
    if args.memory_of:
        print(json.dumps(memory(args)))
        return
    print(f"{args.rows}x{args.length}, {torch.get_num_threads()} threads, {args.conflict}")
    found = [measured(args, method, count) for method in args.methods for count in args.tasks]
    out = Path(__file__).parents[1] / "out"
    out.mkdir(exist_ok=True)
    machine = {"machine": platform.processor() or platform.machine(), "torch": torch.__version__}
    told = {**vars(args), **machine, "threads": torch.get_num_threads(), "found": found}
    (out / "surgery.json").write_text(json.dumps(told, indent=1))


def measured(args: argparse.Namespace, method: str, count: int) -> dict[str, object]:
    """Measure one row of the table."""
    steps, merging_taken = variants(args, method, count)
    times: dict[str, list[float]] = {name: [] for name in steps}
    cpu: dict[str, list[float]] = {name: [] for name in steps}
    for number in range(args.rounds + 2):
        for name, step in steps.items():
            start, used = time.perf_counter(), time.process_time()
            step()
            if number >= 2:
                times[name].append(time.perf_counter() - start)
                cpu[name].append(time.process_time() - used)
    times["merge"] = merging_taken[2:]
    row: dict[str, object] = {"method": method, "tasks": count}
    for name, taken in times.items():
        low, middle, high = (1e3 * t for t in statistics.quantiles(taken, n=4))
        row[name] = {"ms": middle, "low": low, "high": high}
    for name, used in cpu.items():
        row[f"{name}_cpu_ms"] = 1e3 * statistics.median(used)
    row["ratio"] = statistics.median(cpu["surgery"]) / statistics.median(cpu["plain"])
    for name in ("plain", "surgery"):
        child = [
            sys.executable,
            "-m",
            "benchmarks.experiments.surgery",
            "--memory-of",
            name,
            "--methods",
            method,
        ]
        child += ["--tasks", str(count), "--conflict", args.conflict]
        child += ["--rows", str(args.rows), "--length", str(args.length)]
        child += ["--threads", str(torch.get_num_threads())]
        said = subprocess.run(child, check=True, capture_output=True, text=True)
        row[f"{name}_mb"] = json.loads(said.stdout.splitlines()[-1])
    spread = {n: "{ms:.0f} ({low:.0f} to {high:.0f})".format(**row[n]) for n in times}  # type: ignore[arg-type]
    print(
        f"{method:5} {count:3} tasks  plain {spread['plain']} ms  surgery {spread['surgery']} ms, "
        f"{row['ratio']:.2f}x, of it merge {spread['merge']} ms  "
        f"peak +{row['plain_mb']['growth']:.0f} and +{row['surgery_mb']['growth']:.0f} MB",  # type: ignore[index]
        flush=True,
    )
    return row


def variants(
    args: argparse.Namespace, method: str, count: int
) -> tuple[dict[str, Callable[[], None]], list[float]]:
    """The two steps, and the list that the seconds of each merge are added to."""
    torch.manual_seed(0)
    tasks = [weft.Task(f"t{i}", size=2) for i in range(count)]
    model = weft.Model("minilm", tasks, METHODS[method]).train()
    ids = torch.randint(1000, 20000, (args.rows, args.length))
    mask = torch.ones_like(ids)
    mask[::3, args.length // 2 :] = 0
    task = torch.arange(args.rows) % count
    labels = model.collate_labels((torch.arange(args.rows) // count % 2).tolist(), task)
    weight = example_weights(task)
    merging = TaskGradients(model, build_conflict(args.conflict), [t.name for t in tasks], range(count))
    taken: list[float] = []
    trained = [p for p in model.parameters() if p.requires_grad]
    for parameter in trained:
        parameter.grad = torch.zeros_like(parameter)

    def backward(rows: torch.Tensor | slice, factor: int) -> None:
        output = model(ids[rows], mask[rows], task=task[rows])
        some = {name: value[rows] for name, value in labels.items()}
        (factor * model.loss(output, some, weight[rows])).backward()

    def plain() -> None:
        torch._foreach_zero_([p.grad for p in trained])
        backward(slice(None), 1)

    def surgery() -> None:
        torch._foreach_zero_([p.grad for p in trained])
        merging.zero()
        for t in range(count):
            backward(task == t, count)
            merging.after_backward(t)
        start = time.perf_counter()
        merging.finish(0)
        taken.append(time.perf_counter() - start)

    return {"plain": plain, "surgery": surgery}, taken


def memory(args: argparse.Namespace) -> dict[str, float]:
    """The growth of this process's memory at the peak of two steps, and the peak, in MB."""
    step = variants(args, args.methods[0], args.tasks[0])[0][args.memory_of]
    before = resident("VmRSS")
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")  # reset the peak, which was reached while loading
    for _ in range(2):
        step()
    return {"growth": resident("VmHWM") - before, "peak": resident("VmHWM")}


def resident(which: str) -> float:
    """The memory in use or its peak, in MB."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10
    return next(int(line.split()[1]) / 2**10 for line in lines if line.startswith(which))


if __name__ == "__main__":
    main()
