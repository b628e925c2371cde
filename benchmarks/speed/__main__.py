"""`make bench`: compare weft with PEFT, the bare encoder and the arithmetic limit in one run.

    python -m benchmarks.speed [--device cpu] [--only training,inference,methods,real,serving,onnx]
        [--tasks 1 9 64] [--rows 36] [--length 32] [--rounds 15] [--root DATA] [--minilm FOLDER] [--quick]

The variants of a table take turns in one loop. Prints the tables and writes benchmarks/out/bench-DEVICE.json
after every section; docs/results/speed.md says how to read them.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import torch

from benchmarks.speed import each_method, exported, inference, must, real_text, training
from benchmarks.speed.bench import Bench
from benchmarks.speed.encoders import BERT_BASE, minilm
from benchmarks.speed.limit import gemm_ceiling
from benchmarks.speed.machine import in_words, machine
from benchmarks.speed.report import show
from benchmarks.speed.results import OUT, Results
from benchmarks.speed.serving import measure as serving
from benchmarks.speed.text_data import load_text
from weft.methods import METHODS

SECTIONS = ("training", "inference", "methods", "real", "serving", "onnx")
DATA = Path(__file__).parents[3] / "shared" / "data"
SECONDS = 210
"""On a GPU, no variant is built after this many seconds, unless `--seconds` is set."""


def main() -> None:
    args = arguments()
    device = torch.device(args.device)
    if args.threads:
        torch.set_num_threads(args.threads)
    torch.manual_seed(0)
    cuda = device.type == "cuda"
    if cuda:
        torch.set_float32_matmul_precision("high")
    seconds = args.seconds or (SECONDS if cuda else None)
    settings = {key: str(value) if isinstance(value, Path) else value for key, value in vars(args).items()}
    for place in ("root", "minilm", "out"):
        settings.pop(place)  # paths of this machine are not published
    results = Results(machine(device), settings)
    if args.add and args.out.is_file():
        results.keep(Results.read(args.out), args.only)
    deadline = None if seconds is None else time.monotonic() + seconds
    rounds = 3 if args.quick else args.rounds
    bench = Bench(device, results, args.out, rounds, args.quick, deadline)
    bench.say(in_words(results.machine))
    results.ceiling = gemm_ceiling(device)
    encoder = args.encoder or (BERT_BASE if cuda else minilm(args.minilm))
    small = args.encoder or minilm(args.minilm)
    for section in args.only:
        start = time.monotonic()
        if section == "training":
            shapes = [(args.batch, length) for length in args.lengths]
            training.measure(bench, encoder, shapes, args.engines, max(args.tasks[0], 9))
        elif section == "inference":
            inference.measure(bench, encoder, args.rows, args.length, args.tasks, args.methods)
        elif section == "methods":
            rows, length = (8, 16) if args.quick else (32, 64) if cuda else (16, 32)
            each_method.measure(bench, small, rows, length, 9, args.engines[0])
        elif section == "serving":
            serve_rounds, seconds_each = (1, 1.0) if args.quick else (5, 6.0)
            serving.measure(bench, small, str(args.root), serve_rounds, seconds_each)
        elif section == "onnx":
            exported.measure(bench, small, str(args.root))
        else:
            text_sections(bench, args, encoder)
        results.seconds[section] = round(time.monotonic() - start, 1)
        # three rounds of small sizes show nothing
        results.must = [] if args.quick else must.judged(results)
        results.write(args.out)
    show(results)
    bench.say(f"{args.out} written; seconds: {results.seconds}")


def text_sections(bench: Bench, args: argparse.Namespace, encoder: str) -> None:
    """Real text: rows of real lengths, and training from end to end."""
    tokenizer = minilm(args.minilm)
    if tokenizer.startswith("random:"):
        bench.skip("real text", "no tokenizer; install the package of minilm, or give --minilm FOLDER")
        return
    turns = 1 if args.quick else 4
    judged = max(1, args.steps * real_text.BATCH // 80)  # a tenth of the trained examples, over 8 tasks
    text = load_text(tokenizer, str(args.root), args.text_rows, judged)
    inference.measure_text(bench, encoder, text.lengths(96 if args.quick else 288), text.source)
    real_text.measure(bench, encoder, tokenizer, text, args.steps, turns, args.engines[0])


def arguments() -> argparse.Namespace:
    """Parse the options; some defaults depend on the device."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.speed")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument(
        "--only",
        type=_names,
        default=list(SECTIONS),
        help=f"sections to run, of {','.join(SECTIONS)}; default: all",
    )
    parser.add_argument(
        "--encoder", help="encoder; default: minilm on a CPU, the shape of BERT-base on a GPU"
    )
    parser.add_argument("--minilm", help="folder with MiniLM's files; default: the installed package")
    parser.add_argument("--root", type=Path, default=DATA, help="folder with GLUE's files, for real text")
    parser.add_argument("--tasks", type=int, nargs="+", default=[1, 9, 64])
    parser.add_argument("--rows", type=int, help="rows per inference pass; default: 36, on a GPU 288")
    parser.add_argument("--length", type=int, help="tokens per row in inference; default: 32, on a GPU 64")
    parser.add_argument(
        "--methods", type=_names, help="methods to measure in inference; default: all, on a GPU some"
    )
    parser.add_argument("--batch", type=int, default=32, help="rows per training step")
    parser.add_argument(
        "--lengths", type=int, nargs="+", default=[128, 64, 32], help="tokens per row in training"
    )
    parser.add_argument(
        "--engines", type=_names, help="engines to train with; default: auto, on a GPU graph,eager"
    )
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--steps", type=int, help="training steps on real text between two evaluations")
    parser.add_argument("--text-rows", type=int, default=40_000, help="training rows of real text")
    parser.add_argument("--threads", type=int)
    parser.add_argument("--seconds", type=float, help="build no variant after this many seconds")
    parser.add_argument(
        "--quick", action="store_true", help="three rounds with small sizes, to see whether everything runs"
    )
    parser.add_argument("--add", action="store_true", help="keep the results of other sections in --out")
    parser.add_argument("--out", type=Path, help="file to write; default: benchmarks/out/bench-DEVICE.json")
    args = parser.parse_args()
    cuda = torch.device(args.device).type == "cuda"
    if args.quick:
        args.batch, args.lengths, args.text_rows = 8, [16], 2000
    args.rows = args.rows or (288 if cuda else 36)
    args.length = args.length or (64 if cuda else 32)
    args.engines = args.engines or (["graph", "eager"] if cuda else ["auto"])
    args.steps = args.steps or (2 if args.quick else 250 if cuda else 10)
    args.out = args.out or OUT / f"bench-{torch.device(args.device).type}.json"
    if args.methods in (None, ["all"]):
        every = args.methods is not None or not cuda
        args.methods = list(METHODS) if every else list(inference.SHOWN)
    for name, known in (("only", SECTIONS), ("methods", METHODS)):
        odd = [one for one in getattr(args, name) if one not in known]
        if odd:
            parser.error(f"--{name}: {odd[0]!r} does not exist; expected of {', '.join(known)}")
    return args


def _names(text: str) -> list[str]:
    return [name for name in text.split(",") if name]


if __name__ == "__main__":
    main()
