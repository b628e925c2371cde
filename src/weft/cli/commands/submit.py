"""`weft submit`: a model's answers as the zip that the GLUE or the SuperGLUE server takes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from weft.cli.options import Device, EncoderOption, Json, TaskFiles
from weft.cli.output import print_json, print_table
from weft.cli.paths import check_place
from weft.errors import WeftError

if TYPE_CHECKING:
    from weft.data.readers.problem import Problem
    from weft.evaluation.submission import Benchmark
    from weft.evaluation.submission.benchmark import Report

SHOWN = 10
"""How many problems of a file are listed before the rest are counted."""
WNLI = ("majority", "model")


def submit(
    source: Annotated[
        Path, typer.Argument(metavar="RUN|BUNDLE", help="folder of a run or of a bundle; with --check a zip")
    ],
    to: Annotated[str, typer.Option("--to", metavar="glue|superglue", help="name of the benchmark")],
    out: Annotated[Path | None, typer.Option(metavar="FILE.zip", help="zip file to write")] = None,
    tasks: TaskFiles = None,
    fill: Annotated[
        list[str] | None,
        typer.Option(metavar="TASK", help="fill this task's file with a constant; may be repeated"),
    ] = None,
    wnli: Annotated[
        str, typer.Option(metavar="majority|model", help="what the file of WNLI holds")
    ] = "majority",
    check: Annotated[bool, typer.Option("--check", help="write nothing: check an existing zip file")] = False,
    encoder: EncoderOption = None,
    device: Device = None,
    as_json: Json = False,
) -> None:
    """Write a model's answers for the test sets as the zip that a benchmark's server takes, and check it.

    Files without answers (a task that is not trained, or has no test file) are filled with a constant, and
    the report names each. WNLI's is by default, as in the papers.
    """
    from weft.evaluation.submission import BENCHMARKS

    benchmark = BENCHMARKS[to]
    if check:
        _check(benchmark, source, as_json)
        return
    place = _place(source, to, out)
    if wnli not in WNLI:
        raise WeftError(f"--wnli {wnli}: expected {' or '.join(WNLI)}")
    from weft.workflows.submit import submit as write_submission

    report, problems = write_submission(
        source,
        benchmark,
        place,
        files=tasks,
        fill=fill or (),
        insist=["wnli"] if wnli == "model" else [],
        encoder=encoder,
        device=device,
    )
    if as_json:
        listed = [str(problem) for problem in problems]
        print_json({"benchmark": benchmark.name, **report.as_dict(), "problems": listed})
    else:
        _print(benchmark, report, problems)
    if problems:
        raise typer.Exit(1)


def _place(source: Path, to: str, out: Path | None) -> Path:
    if out is None:
        if source.is_file():
            raise WeftError(
                f"{source} is a file; to check a zip, write: weft submit {source} --to {to} --check"
            )
        raise WeftError(f"--out is missing; write: weft submit {source} --to {to} --out {to}.zip")
    if out.suffix.lower() != ".zip":
        raise WeftError(f"--out {out}: expected a name that ends in .zip")
    check_place("--out", out)
    return out


def _check(benchmark: Benchmark, place: Path, as_json: bool) -> None:
    problems = benchmark.check(place)
    if as_json:
        print_json({"zip": str(place), "problems": [str(problem) for problem in problems]})
    else:
        for line in _told(problems):
            print(line)
        print(_verdict(benchmark, place, problems))
    if problems:
        raise typer.Exit(2)


def _told(problems: Sequence[Problem]) -> list[str]:
    """The first problems of each file, and how many more it has."""
    lines: list[str] = []
    count: Counter[str] = Counter()
    for problem in problems:
        count[problem.source] += 1
        if count[problem.source] <= SHOWN:
            lines.append(str(problem))
    return lines + [f"{source}: … and {n - SHOWN:,} more" for source, n in count.items() if n > SHOWN]


def _verdict(benchmark: Benchmark, place: Path, problems: Sequence[Problem]) -> str:
    if not problems:
        return f"{place}: {len(benchmark.forms)} files, as {benchmark.title}'s server takes them"
    return f"{place}: {len(problems):,} problem{'s' * (len(problems) > 1)}"


def _print(benchmark: Benchmark, report: Report, problems: Sequence[Problem]) -> None:
    rows = [
        [entry.file, entry.rows, entry.task if entry.filler is None else "filler"] for entry in report.entries
    ]
    print_table(f"{benchmark.title}: {report.out}", ["file", "answers", "from"], rows)
    for entry in report.fillers:
        print(f"filler: {entry.file} holds no answers of the model: {entry.why}")
    for line in _told(problems):
        print(line)
    print(_verdict(benchmark, report.out, problems))
