"""`weft assemble`: combine bundles that were trained separately."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from weft.cli.completion import among
from weft.cli.options import EncoderOption, Json, NewBundle
from weft.cli.output import print_json, print_notes, print_table, print_text
from weft.errors import WeftError, did_you_mean
from weft.utils.notes import is_quiet
from weft.utils.terminal import escaped_line, raw_stream

if TYPE_CHECKING:
    from weft.bundle.assemble_morris import AssembledMorris


def assemble(
    bundles: Annotated[
        list[Path],
        typer.Argument(metavar="BUNDLE", help="folders of two or more saved models (bundles), or of runs"),
    ],
    out: NewBundle,
    form: Annotated[
        str | None,
        typer.Option(
            "--as",
            metavar="morris",
            autocompletion=among("morris"),
            help="convert the LoRA updates of all tasks to one low-rank tensor (the method morris); default: "
            "keep the bundles' method",
        ),
    ] = None,
    rank: Annotated[
        int | None, typer.Option(help="rank of the tensor; only with --as morris; default: 64")
    ] = None,
    bias_rank: Annotated[
        int | None, typer.Option(help="rank of the matrix of biases; only with --as morris; default: 4")
    ] = None,
    encoder: EncoderOption = None,
    as_json: Json = False,
) -> None:
    """Combine separately trained bundles into one bundle.

    The bundles must have the same encoder and method. The new bundle has the tasks of all of them; each task
    gives the same outputs as before. With --as morris the outputs are equal up to the error that is printed.

    Example: weft assemble runs/cola runs/rte --out bundles/both
    """
    from weft.workflows.assemble import METHODS
    from weft.workflows.assemble import assemble as assemble_bundles

    if form is not None and form not in METHODS:
        raise WeftError(f"--as {form!r}; {did_you_mean(form, METHODS)}")
    if form is None:
        for option, value in (("--rank", rank), ("--bias-rank", bias_rank)):
            if value is not None:
                raise WeftError(f"{option} {value} belongs to --as morris; leave it out, or add --as morris")
    done = assemble_bundles(
        bundles, out, method=form, rank=rank, bias_rank=bias_rank, encoder=encoder, progress=_progress()
    )
    print_notes(done.notes)
    if as_json:
        print_json(done.as_dict())
        return
    if form is not None:
        _print_errors(done)  # type: ignore[arg-type]
    print(f"tasks: {', '.join(done.tasks)}")
    print_text(f"bundle: {done.folder}")


def _progress() -> Callable[[str], None]:
    """Return a function that shows the current site on one line of a terminal; an empty name clears it."""
    if is_quiet() or not sys.stderr.isatty():
        return lambda site: None
    screen = raw_stream(sys.stderr)
    return lambda site: print(f"\r\x1b[K{escaped_line(site)}", end="\r", file=screen, flush=True)


def _print_errors(done: AssembledMorris) -> None:
    rows: list[list[object]] = [
        [e.site, e.what, e.components, e.rank, f"{e.relative:.2e}"] for e in done.errors
    ]
    for what in ("weight", "bias"):
        if (total := done.relative(what)) is not None:
            rows.append(["all", what, "", "", f"{total:.2e}"])
    print_table(
        "error of the MORRIS tensor relative to the LoRA updates",
        ["site", "of", "components", "rank", "relative error"],
        rows,
    )
