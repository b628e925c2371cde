"""Train every registered method on GLUE-8 with three learning rates, several runs at once on one GPU.

    python -m benchmarks.experiments.methods --root DATA --out FILE.jsonl [--jobs 8] [--mps]
        [--seconds 540] [--resume]

Tasks: cola, sst2, mrpc, stsb, qqp, mnli, qnli, rte. `minilm`, 12,000 steps of 32 examples, annealed sampling,
one seed. Validation is halved by a seed: one half chooses the rate, the other is reported. Further rows are
references: different samplers for `full`, and one LoRA for all tasks.

One line of JSON is added to FILE when a run ends, so that a call that is killed loses nothing; `--resume`
makes only the missing runs, and `--but docs/results/methods.json` leaves out those that the page has.
`benchmarks.experiments.methods_page` makes the page.
"""

from __future__ import annotations

import argparse
import json
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from benchmarks.experiments.pool import Job, pooled
from benchmarks.experiments.shared_gpu import (
    import_for_children,
    mps,
    prepare_environment,
    start_method,
    temporary,
)

if TYPE_CHECKING:
    from benchmarks.experiments.glue_runs import Case


class Row(NamedTuple):
    """One row of the table.

    Attributes:
        name: as the table says.
        method: passed to `weft.Model`.
        sampler: how steps choose tasks.
    """

    name: str
    method: Any
    sampler: str = "annealed"


REFERENCE = (
    Row("full, proportional", "full", "proportional"),
    Row("full, square root", "full", "square_root"),
    Row("lora, one for all tasks", {"use": "lora", "share": "all"}),
)
"""Rows in addition to the registered methods, to compare with an independent run."""

FROZEN, TRAINED = (1.0, 3.0, 10.0), (1 / 3, 1.0, 3.0)
"""Factors of the method's default rate; the middle one runs first.

A small sentence encoder takes larger rates than BERT. Where it is frozen, the best rates in short runs lay
three to ten times above those that the papers give for BERT.
"""


def main() -> None:
    args = arguments()
    prepare_environment(args.jobs)
    from benchmarks.experiments.glue_runs import Setup, data_of, one_run

    began = time.monotonic()
    setup = Setup(
        str(Path(args.root).resolve()),
        args.encoder,
        args.steps,
        args.batch_size,
        args.max_length,
        args.limit_rows,
        work=args.work,
    )
    out = Path(args.out)
    out.parent.mkdir(parents=True, exist_ok=True)
    done = finished(out) if args.resume else set()
    if not args.resume:
        out.write_text("")
    wanted = ordered(rows(args.methods), args.seed, args.middle_only)
    shown = json.loads(args.but.read_text())["runs"] if args.but else []
    pairs = {(run["row"], run["lr"]) for run in shown}
    cases = [case for case in wanted if case.key not in done and (case.row, case.lr) not in pairs]
    import_for_children()
    data = data_of(setup)
    sizes = {name: len(split) for (name, kind), split in data.splits.items() if kind == "train"}
    print(f"{len(cases)} of {len(wanted)} runs are to be made; training rows: {sizes}", flush=True)
    with mps(args.mps) as overlapping:
        start, found = start_method()
        shared = {"jobs": args.jobs, "mps": overlapping, "note": args.note}
        print(f"{found['device']}, {args.jobs} at a time by {start}, MPS {overlapping}", flush=True)
        jobs = [Job(case.key, str(case.method), partial(one_run, case, setup)) for case in cases]
        by_key = {case.key: case for case in cases}
        for key, result in pooled(
            jobs,
            Path(args.work) / "logs",
            at_once=args.jobs,
            start=start,
            stop_starting=None if args.seconds is None else began + args.seconds,
            limit=None if overlapping else args.run_seconds,  # killing a client of MPS ends all clients
        ):
            fell = fell_back(Path(args.work) / "logs" / f"{key}.log")
            report(by_key[key], {**result, **shared, "fell_back": fell}, out, time.monotonic() - began)
    left = len(cases) - len(finished(out) & set(by_key))
    print(f"{time.monotonic() - began:.0f} s in all; {left} runs left or failed", flush=True)


def arguments() -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--root", required=True, help="folder with the files of GLUE")
    parser.add_argument("--out", default="benchmarks/out/methods.jsonl")
    parser.add_argument("--encoder", default="minilm")
    parser.add_argument("--methods", nargs="+", help="names of the rows to run; default: all")
    for name, default in (
        ("steps", 12_000),
        ("batch-size", 32),
        ("max-length", 128),
        ("jobs", 8),
        ("seed", 1),
    ):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument(
        "--limit-rows", type=int, help="use at most this many rows per split, for a trial; default: all"
    )
    parser.add_argument(
        "--seconds", type=float, help="start no run after this many seconds; default: no limit"
    )
    parser.add_argument(
        "--run-seconds",
        type=float,
        default=420,
        help="end a run that takes longer than this many seconds; without effect under MPS",
    )
    parser.add_argument(
        "--mps",
        action="store_true",
        help="use NVIDIA's MPS, so that several processes run on the GPU at once",
    )
    parser.add_argument(
        "--middle-only", action="store_true", help="train each row with one rate only, for a trial"
    )
    parser.add_argument("--resume", action="store_true", help="make only the runs that FILE does not have")
    parser.add_argument("--but", type=Path, help="a methods.json: make only the runs that it does not have")
    parser.add_argument("--note", help="a sentence about these runs for the page")
    parser.add_argument(
        "--work", default=str(temporary("weft-methods")), help="folder for logs and temporary runs"
    )
    return parser.parse_args()


def rows(wanted: list[str] | None) -> list[Row]:
    """The rows of the table: every registered method, then the references."""
    from weft.errors import WeftError
    from weft.methods import METHODS

    every = [*(Row(name, name) for name in METHODS), *REFERENCE]
    names = [row.name for row in every]
    if unknown := [name for name in wanted or () if name not in names]:
        raise WeftError(f"--methods: {unknown[0]!r} is none of {', '.join(names)}")
    return [row for row in every if wanted is None or row.name in wanted]


def rates(method: Any) -> tuple[float, float, float]:
    """Three learning rates for a method, rounded to two digits, in ascending order."""
    from weft.methods import build_method

    built = build_method(method)
    factors = FROZEN if built.train_encoder == "none" and not built.separate else TRAINED
    low, middle, high = (float(f"{built.default_lr * factor:.1e}") for factor in factors)
    return low, middle, high


def ordered(table: list[Row], seed: int, middle_only: bool = False) -> list[Case]:
    """All runs: first those that CUDA graphs do not speed up, then every row's middle rate, then the rest.

    So a call that ends early has something of every row. Of equal rank the slower ones go first, or the last
    of them would run alone.
    """
    from benchmarks.experiments.glue_runs import Case
    from weft.methods import build_method

    ranked: list[tuple[tuple[int, int], Case]] = []
    for row in table:
        method = build_method(row.method)
        slow = 2 * method.separate + (method.attends or method.embeds)
        for turn, lr in zip((2, 0, 1), rates(row.method), strict=True):
            if middle_only and turn:
                continue
            case = Case(row.name, row.method, lr, row.sampler, seed=seed)
            ranked.append(((-1 if method.separate else turn, -slow), case))
    return [case for _, case in sorted(ranked, key=lambda pair: pair[0])]


def finished(out: Path) -> set[str]:
    """The runs in a file, without those that failed."""
    lines = [json.loads(line) for line in out.read_text().splitlines()] if out.is_file() else []
    return {line["key"] for line in lines if "error" not in line}


def fell_back(log: Path) -> str | None:
    """The message of a run whose engine fell back to a different one."""
    lines = log.read_text(errors="replace").splitlines() if log.is_file() else []
    return next((line.strip() for line in lines if "continues with eager" in line), None)


def report(case: Case, result: dict[str, Any], out: Path, now: float) -> None:
    """Add a run to the file, and print it."""
    from benchmarks.experiments.glue_runs import average

    named = {"key": case.key, "row": case.row, "lr": case.lr, "sampler": case.sampler}
    with out.open("a") as file:
        file.write(json.dumps({**named, **result}) + "\n")
    name = f"{now:5.0f} s  {case.row:24} {case.lr:.1e}"
    if "error" in result:
        print(f"{name}  failed: {result['error'].strip()[-300:]}", flush=True)
        return
    halves, seconds = result["scores"], result["seconds"]
    chosen, reported = (average(halves[half]) for half in ("chosen_by", "reported"))
    told = f"{chosen:5.1f} / {reported:5.1f}  {seconds['train']:6.1f} s, in all {seconds['all']:.1f}"
    print(f"{name}  {told}  {result['engine_used']['name']}", flush=True)
    if result["fell_back"]:
        print(f"         {result['fell_back']}", flush=True)


if __name__ == "__main__":
    main()
