"""`weft assemble`: bundles trained apart become one."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from weft.errors import WeftError, did_you_mean

if TYPE_CHECKING:
    from weft.bundle.assemble_morris import AssembledMorris

FORMS = ("morris",)


def assemble(
    bundles: Annotated[
        list[Path], typer.Argument(metavar="BUNDLE BUNDLE…", help="bundles, or runs' folders")
    ],
    out: Annotated[Path, typer.Option(help="the new bundle's folder")],
    form: Annotated[
        str | None,
        typer.Option("--as", metavar="morris", help="one low-rank tensor of all tasks' LoRA updates"),
    ] = None,
    rank: Annotated[int | None, typer.Option(help="of the tensor, with --as morris; default 64")] = None,
    bias_rank: Annotated[
        int | None, typer.Option(help="of the matrix of biases, with --as morris; default 4")
    ] = None,
    encoder: Annotated[str | None, typer.Option(help="where the encoder is, if not where it was")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="one JSON object on standard output")] = False,
) -> None:
    """Put the tasks of bundles that were trained apart into one bundle."""
    if form is not None and form not in FORMS:
        raise WeftError(f"--as {form!r}; {did_you_mean(form, FORMS)}")
    if form is None:
        for option, value in (("--rank", rank), ("--bias-rank", bias_rank)):
            if value is not None:
                raise WeftError(f"{option} {value} belongs to --as morris; leave it out, or add --as morris")
    from weft.bundle.assemble import assemble as put_together

    if form is None:
        done = put_together(bundles, out, encoder=encoder)
        more: dict[str, Any] = {}
    else:
        from weft.bundle.assemble_morris import assemble_morris

        ranks = {"rank": rank, "bias_rank": bias_rank}
        given = {key: value for key, value in ranks.items() if value is not None}
        done = met = assemble_morris(bundles, out, **given, encoder=encoder, progress=_progress())
        more = {
            "errors": _errors(met),
            "weight_error": met.relative("weight"),
            "bias_error": met.relative("bias"),
        }
    for note in done.notes:
        print(f"note: {note}", file=sys.stderr)
    if as_json:
        told = {"bundle": str(done.folder), "tasks": done.tasks, "method": done.method.settings()}
        print(json.dumps({**told, "notes": done.notes, **more}))
        return
    if more:
        _print_errors(more)
    print(f"tasks: {', '.join(done.tasks)}")
    print(f"bundle: {done.folder}")


def _progress() -> Any:
    """A line that is written over, on a terminal alone; an empty name clears it."""
    if not sys.stderr.isatty():
        return lambda site: None
    return lambda site: print(f"\r\x1b[K{site}", end="\r", file=sys.stderr, flush=True)


def _errors(met: AssembledMorris) -> list[dict[str, Any]]:
    return [
        {
            "site": site.site,
            "what": site.what,
            "components": site.components,
            "rank": site.rank,
            "relative_error": site.relative,
        }
        for site in met.errors
    ]


def _print_errors(told: dict[str, Any]) -> None:
    from weft.cli.tables import print_table

    rows = [
        [e["site"], e["what"], e["components"], e["rank"], f"{e['relative_error']:.2e}"]
        for e in told["errors"]
    ]
    for what in ("weight", "bias"):
        if (whole := told[f"{what}_error"]) is not None:
            rows.append(["all", what, "", "", f"{whole:.2e}"])
    print_table(
        "how far MORRIS is from the updates", ["site", "of", "components", "rank", "relative error"], rows
    )
