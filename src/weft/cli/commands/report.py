"""`weft report`: one page about runs or comparisons."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from weft.cli.options import Json
from weft.cli.output import print_json, print_written


def report(
    folders: Annotated[
        list[Path],
        typer.Argument(
            metavar="RUN|DIR",
            help="folders of runs (weft train --out) or of comparisons (weft compare --out), or a folder "
            "that holds some of them",
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="file of the page; default: report.html in the folder; required with several folders",
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Write one web page about runs or comparisons.

    The page is one HTML file with its pictures inside, and needs no network. Of a run it shows scores,
    learning curves, what was sampled, errors and settings; of a comparison the tables with intervals and
    claims, learning curves, cost, and what must not be concluded.

    Example: weft report runs/first

    Example: weft report runs/first runs/second --out both.html

    Example: weft report runs
    """
    from weft.reporting.report import report as write_report

    written = write_report(folders, out)
    if as_json:
        print_json({"file": str(written), "bytes": written.stat().st_size})
    print_written(written, as_json)
