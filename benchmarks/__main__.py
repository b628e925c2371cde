"""`make bench`: weft beside the bare encoder and PEFT, in one run, the variants taking turns.

    python -m benchmarks [--tasks 9] [--rows 36] [--length 32] [--rounds 15]

Prints medians, quartiles and the ratio to the bare encoder, and writes benchmarks/out/cpu.json.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import torch
from peft import LoraConfig, get_peft_model

import weft
from weft.methods import METHODS


def main() -> None:
    parser = argparse.ArgumentParser()
    for name, default in (("tasks", 9), ("rows", 36), ("length", 32), ("rounds", 15)):
        parser.add_argument(f"--{name}", type=int, default=default)
    args = parser.parse_args()
    tasks = [weft.Task(f"t{i}", size=2) for i in range(args.tasks)]
    ids = torch.randint(1000, 20000, (args.rows, args.length))
    mask = torch.ones_like(ids)
    mask[::3, args.length // 2 :] = 0
    task = torch.arange(args.rows) % args.tasks

    bare = weft.load_encoder("minilm").model
    variants: dict[str, Callable[[], object]] = {"bare encoder": lambda: bare(ids, attention_mask=mask)}
    for method in METHODS:
        if METHODS[method].separate:
            continue  # nine encoders, nine times the memory: its cost is that of nine small batches
        model = weft.Model("minilm", tasks, method).eval()
        variants[f"weft {method}, mixed"] = lambda model=model: model(ids, mask, task=task)
    config = LoraConfig(r=8, target_modules=["query", "value"])
    peft = get_peft_model(weft.load_encoder("minilm").model, config, adapter_name="t0")
    for one in tasks[1:]:
        peft.add_adapter(one.name, config)
    names = [tasks[t].name for t in task.tolist()]
    peft.eval()
    variants["peft lora, adapter_names"] = lambda: peft(ids, attention_mask=mask, adapter_names=names)

    times: dict[str, list[float]] = {name: [] for name in variants}
    with torch.no_grad():
        for number in range(args.rounds + 2):
            for name, run in variants.items():
                start = time.perf_counter()
                run()
                if number >= 2:
                    times[name].append(time.perf_counter() - start)
    base = statistics.median(times["bare encoder"])
    rows = {}
    print(f"{args.tasks} tasks, {args.rows}x{args.length}, {torch.get_num_threads()} threads, inference")
    for name, taken in times.items():
        low, middle, high = statistics.quantiles(taken, n=4)
        rows[name] = {"ms": middle * 1e3, "low": low * 1e3, "high": high * 1e3, "ratio": middle / base}
        spread = f"({low * 1e3:.1f} to {high * 1e3:.1f})"
        print(f"{name:28} {middle * 1e3:8.1f} ms  {spread:18} {middle / base:5.2f}x")
    out = Path(__file__).parent / "out"
    out.mkdir(exist_ok=True)
    machine = {"machine": platform.processor() or platform.machine(), "torch": torch.__version__}
    (out / "cpu.json").write_text(json.dumps({**vars(args), **machine, "rows": rows}, indent=1))


if __name__ == "__main__":
    main()
