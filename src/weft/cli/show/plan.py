"""`weft show plan`: what a run would draw."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from weft.cli.paths import check_plot

if TYPE_CHECKING:
    from weft.sampling.plan.plan import Plan

WIDTH = 80
"""Of the chart where there is no terminal that has another."""


def plan(
    source: Annotated[str, typer.Argument(metavar="RUN.yaml", help="a run file, or a preset by name")],
    overrides: Annotated[
        list[str] | None, typer.Argument(metavar="key=value", help="such as train.steps=500")
    ] = None,
    plot: Annotated[
        Path | None, typer.Option(metavar="FILE.svg|FILE.png", help="draw the shares over time here")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="one JSON object on standard output")] = False,
) -> None:
    """The share of each task over time; its steps and epochs, counted from the plan itself."""
    check_plot(plot)
    from dataclasses import asdict

    from weft.config import load_run
    from weft.data.splits.splits import load_rows
    from weft.encoder.load import load_tokenizer
    from weft.methods.ranked import l0_of

    run = load_run(source, overrides or [])
    training = run.training
    splits = [load_rows(task, "train") for task in run.tasks]
    from weft.data.tokens.tokens import tokenize
    from weft.training.run.plan import plan_of

    tokenizer = load_tokenizer(run.encoder)
    lengths = None
    if tokenizer is not None:
        lengths = [tokenize(split, tokenizer, training.max_length).lengths for split in splits]
    gates = l0_of(run.method)
    before = 0 if gates is None else gates.steps
    sizes = [len(split) for split in splits]
    made = plan_of(training, [task.name for task in run.tasks], sizes, lengths, before)
    waste = None if lengths is None else made.padding_waste()
    # the file first: a reader of the pipe may leave before all is printed
    if plot is not None:
        from weft.analysis.plots.plan import write_picture

        write_picture(made.shares(), made.names, plot, _title(made, before), _what(made))
    if as_json:
        shares = [
            {"first": one.first, "stop": one.stop, "share": _by_task(made, one.share.tolist())}
            for one in made.shares()
        ]
        told = {
            "tasks": [asdict(row) for row in made.summary()],
            "drawn": _unit(made),
            "shares": shares,
            "shares_of": _what(made),
            "padding": waste,
            "epoch": asdict(made.epoch()),
            "fingerprint": made.fingerprint(),
        }
        print(json.dumps(told))
    else:
        _print(made, before, waste)
    if plot is not None:
        print(f"written: {plot}", file=sys.stderr if as_json else sys.stdout)


def _what(made: Plan) -> str:
    """Of what the plan knows the shares."""
    return "candidates" if made.chooses else "draws"


def _unit(made: Plan) -> str:
    """What a task is drawn for."""
    return "examples" if made.mixed and not made.chooses else "steps"


def _by_task(made: Plan, values: list[float]) -> dict[str, float]:
    return dict(zip(made.names, values, strict=True))


def _title(made: Plan, before: int) -> str:
    kind = "mixed batches" if made.mixed else "one task a batch"
    if made.chooses:
        kind = "chosen among a batch of each task"
    if before:
        kind += f"; the first {before} steps find the ranks (l0)"
    return f"{made.steps} steps of {made.batch_size}, {made.sampler.name}, {kind}"


def _print(made: Plan, before: int, waste: float | None) -> None:
    from weft.cli.tables import print_table

    rows = [
        [r.name, r.size, f"{100 * r.share:.1f}%", r.drawn, r.examples, f"{r.epochs:.2f}"]
        for r in made.summary()
    ]
    seen = "candidates seen" if made.chooses else "examples seen"
    print_table(_title(made, before), ["task", "rows", "share", _unit(made), seen, "epochs"], rows)
    epoch = made.epoch()
    print(f"an epoch of {epoch.task}: {'' if epoch.exact else 'about '}{epoch.steps:.0f} steps")
    if waste is not None:
        print(f"padding: {100 * waste:.1f}% of the token places")
    print()
    _print_chart(made)


def _print_chart(made: Plan) -> None:
    from rich.console import Console
    from rich.text import Text

    from weft.analysis.plots.plan_chart import changing, chart

    shares = made.shares()
    console = Console(highlight=False)
    width = min(console.width, 120) if console.is_terminal else WIDTH
    plain = not console.encoding.lower().startswith("utf")
    moving = changing(shares)
    print(f"expected share of the {_what(made)}{'' if moving else ', the same at every step'}")
    if made.chooses:
        print("(what is trained on among them is chosen by the model as it trains: no plan knows it)")
    console.width = max(width, console.width)
    for number, line in enumerate(chart(shares, made.names, width, plain)):
        # texts, not markup: a task may be named o[red]x
        heading = moving and (number == 0 or number > len(made.names))
        console.print(Text(line, style="" if heading else "cyan"), soft_wrap=True)
