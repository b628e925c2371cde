"""`weft assemble`: combine bundles that were trained separately."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from weft.cli.completion import among
from weft.cli.options import Device, EncoderOption, Json, NewBundle, Rows, TaskFiles
from weft.cli.output import print_json, print_notes, print_table, print_text
from weft.errors import WeftError, did_you_mean
from weft.utils.notes import is_quiet
from weft.utils.terminal import escaped_line, raw_stream

if TYPE_CHECKING:
    from weft.bundle.assemble_morris import AssembledMorris
    from weft.bundle.merge import Merged
    from weft.workflows.merge_scores import TaskScore


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
        int | None,
        typer.Option(
            help="with --as morris: rank of the tensor, default 64; with --merge: largest rank of a merged "
            "update, default the sum of the tasks' ranks"
        ),
    ] = None,
    bias_rank: Annotated[
        int | None, typer.Option(help="rank of the matrix of biases; only with --as morris; default: 4")
    ] = None,
    merge: Annotated[
        str | None,
        typer.Option(
            metavar="RULE",
            autocompletion=among("linear", "task_arithmetic", "ties", "dare", "dare_ties"),
            help="merge the tasks' weights into one set: linear, task_arithmetic, ties, dare or dare_ties",
        ),
    ] = None,
    weights: Annotated[
        str | None,
        typer.Option(metavar="TASK=W,…", help="with --merge: weights of tasks; default: 1 for each"),
    ] = None,
    density: Annotated[
        float | None,
        typer.Option(
            metavar="D",
            help="with --merge ties or dare: share of the entries that is kept; default: 0.2, of dare 0.5",
        ),
    ] = None,
    scale: Annotated[
        float | None, typer.Option(metavar="S", help="with --merge: factor of the merged update; default: 1")
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(
            metavar="N", help="with --merge dare: random seed of the entries that are kept; default: 1"
        ),
    ] = None,
    scores: Annotated[
        bool,
        typer.Option(
            "--scores/--no-scores",
            help="with --merge: evaluate every task before and after, on the validation rows of the runs",
        ),
    ] = True,
    tasks: TaskFiles = None,
    rows: Rows = None,
    encoder: EncoderOption = None,
    device: Device = None,
    as_json: Json = False,
) -> None:
    """Combine separately trained bundles into one bundle.

    The bundles must have the same encoder and method. The new bundle has the tasks of all of them; each task
    gives the same outputs as before. With --as morris the outputs are equal up to the error that is printed.
    With --merge there is one set of weights for all tasks, and only heads differ: outputs change, and the
    score of each task is printed before and after.

    Example: weft assemble runs/cola runs/rte --out bundles/both

    Example: weft assemble runs/cola runs/rte --merge ties --density 0.2 --out bundles/one
    """
    from weft.workflows.assemble import METHODS
    from weft.workflows.assemble import assemble as assemble_bundles

    if form is not None and form not in METHODS:
        raise WeftError(f"--as {form!r}; {did_you_mean(form, METHODS)}")
    if form is None:
        for option, value in (("--rank", None if merge else rank), ("--bias-rank", bias_rank)):
            if value is not None:
                raise WeftError(f"{option} {value} belongs to --as morris; leave it out, or add --as morris")
    if merge is None and (tasks or rows is not None or not scores):
        option = "--tasks" if tasks else "--no-scores" if not scores else "--rows"
        raise WeftError(f"{option} belongs to --merge, which evaluates; leave it out, or add --merge ties")
    done = assemble_bundles(
        bundles,
        out,
        method=form,
        rank=rank,
        bias_rank=bias_rank,
        merge=merge,
        weights=None if weights is None else _weights(weights),
        density=density,
        scale=scale,
        seed=seed,
        encoder=encoder,
        progress=_progress(),
    )
    print_notes(done.notes)
    if merge is not None:
        from weft.workflows.merge_scores import merge_scores

        wanted = (
            merge_scores(bundles, out, tasks, rows=rows, encoder=encoder, device=device) if scores else []
        )
        _print_merged(done, wanted, as_json)  # type: ignore[arg-type]
        return
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


def _weights(text: str) -> dict[str, float]:
    """Read `cola=0.7,rte=0.3`."""
    weights = {}
    for part in text.split(","):
        name, equals, value = part.partition("=")
        try:
            weights[name.strip()] = float(value)
        except ValueError:
            equals = ""
        if not equals or not name.strip():
            raise WeftError(f"--weights {text!r}: expected tasks with numbers, such as cola=0.7,rte=0.3")
    return weights


def _print_merged(done: Merged, scores: list[TaskScore], as_json: bool) -> None:
    """Print the scores before and after, and the error of updates of smaller rank."""
    means = [sum(values) / len(scores) for values in zip(*((s.before, s.after) for s in scores), strict=True)]
    if as_json:
        averages = dict(zip(("before", "after"), means, strict=False)) or None
        print_json({**done.as_dict(), "scores": [score.as_dict() for score in scores], "average": averages})
        return
    if scores:
        table = [[s.task, s.metric, s.rows, *_percents(s.before, s.after)] for s in scores]
        if len(scores) > 1:
            table.append(["average", "", "", *_percents(*means)])
        columns = ["task", "metric", "rows", "own weights", "merged", "difference"]
        print_table(f"scores on validation, in percent ({done.merge.rule})", columns, table)
    if done.errors:
        print_text(f"error of the merged updates at their rank: {done.relative:.1e} of their norm")
    print(f"tasks: {', '.join(done.tasks)}")
    print_text(f"bundle: {done.folder}")


def _percents(before: float, after: float) -> list[str]:
    return [f"{100 * before:.1f}", f"{100 * after:.1f}", f"{100 * (after - before):+.1f}"]
