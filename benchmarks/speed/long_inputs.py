"""Measure long inputs: ModernBERT with rows of 1,024 and 4,096 tokens, predicted and trained.

    python -m benchmarks.speed.long_inputs [--lengths 1024 4096] [--only prediction training] [--device cuda]
        [--seconds 75] [--rounds 5] [--out FILE] [--quick]

Weights are random, in the shape of ModernBERT-base; LoRA of rank 8 on four tasks, whose rows are mixed.

Prediction: token ids in, logits out. The lengths of rows are spread as those of long documents: log-normal,
with a third of the longest row as median, cut at the longest. The plain way takes rows in the order of the
file, pads a batch to its longest row and runs eagerly; weft's way is that of `model.predict`. Beside them
stands the bare encoder, also without padding (`benchmarks.speed.varlen_attention`). `tokens_per_s` counts
tokens, `positions_per_s` padding too.

Training: steps on rows without padding, 16,384 tokens each, with the engines `graph` and `eager`, and with
gradient checkpointing.

Variants take turns. Prints a line per variant, and writes benchmarks/out/long-inputs-DEVICE.json.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import torch

from benchmarks.speed import long_prediction, long_training
from benchmarks.speed.bench import Bench
from benchmarks.speed.machine import in_words, machine
from benchmarks.speed.results import OUT, Results

SECTIONS = ("prediction", "training")
BASE, TINY = "random:modernbert-base", "random:modernbert-tiny"


def main() -> None:
    args = arguments()
    device = torch.device(args.device)
    torch.manual_seed(0)
    if device.type == "cuda":
        torch.set_float32_matmul_precision("high")
    settings = {key: value for key, value in vars(args).items() if key != "out"}
    results = Results(machine(device), settings)
    file = args.out or OUT / f"long-inputs-{device.type}.json"
    deadline = time.monotonic() + args.seconds
    bench = Bench(device, results, file, args.rounds, args.quick, deadline)
    bench.say(in_words(results.machine))
    for section in args.only:
        began = time.monotonic()
        for length in args.lengths:
            measure = long_prediction.measure if section == "prediction" else long_training.measure
            measure(bench, args.encoder, length, args.positions)
            show(results)
        results.seconds[section] = round(time.monotonic() - began, 1)
        results.write(file)
    bench.say(f"{results.seconds}; {file}")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--lengths", type=int, nargs="+", help="longest rows; default: 1024 4096")
    parser.add_argument("--only", nargs="+", default=list(SECTIONS), choices=SECTIONS)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--encoder", help=f"default: {BASE}; {TINY} with --quick")
    parser.add_argument("--positions", type=int, help="token positions of a batch; default: 16384")
    parser.add_argument("--rounds", type=int, default=5, help="rounds of measurement")
    parser.add_argument("--seconds", type=float, default=75.0, help="after this time nothing more is built")
    parser.add_argument(
        "--quick", action="store_true", help="does everything run? short rows, a tiny encoder"
    )
    parser.add_argument("--out", type=Path, help="JSON file to write")
    args = parser.parse_args()
    args.lengths = args.lengths or ([128] if args.quick else [1024, 4096])
    args.encoder = args.encoder or (TINY if args.quick else BASE)
    args.positions = args.positions or (512 if args.quick else 16_384)
    args.rounds = 2 if args.quick else args.rounds
    return args


def show(results: Results) -> None:
    """Print the rows of the last piece of work."""
    work = results.works[-1]
    print(f"{work.name}: " + ", ".join(f"{key} {value}" for key, value in work.facts.items()))
    for row in work.rows:
        shown = {"ms": f"{row['ms']:.1f} ({row['low']:.1f} to {row['high']:.1f})"}
        shown |= {name: f"{row[name]:,}" for name in ("tokens_per_s", "positions_per_s")}
        memory = "" if row["peak_mb"] is None else f"  peak {row['peak_mb']:,.0f} MiB"
        ratio = f"  {row['ratio']:.2f} times as fast" if "ratio" in row else ""
        print(f"  {row['variant']}  " + "  ".join(f"{k} {v}" for k, v in shown.items()) + memory + ratio)


if __name__ == "__main__":
    main()
