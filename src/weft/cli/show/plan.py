"""`weft show plan`: what a run would draw."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.cli.options import Json, Overrides, Plot, RunFileArgument
from weft.cli.output import print_json, print_table, print_written
from weft.cli.paths import check_plot

if TYPE_CHECKING:
    from weft.workflows.plan import RunPlan

WIDTH = 80
"""Of the chart where there is no terminal with a width of its own."""


def plan(
    source: RunFileArgument, overrides: Overrides = None, plot: Plot = None, as_json: Json = False
) -> None:
    """The share of each task over time; its steps and epochs, counted from the plan itself."""
    check_plot(plot)
    from weft.config import load_run
    from weft.workflows.plan import plan_run

    made = plan_run(load_run(source, overrides or []))
    # the file first: a reader of the pipe may leave before all is printed
    if plot is not None:
        from weft.analysis.plots.plan import write_picture

        write_picture(made.plan.shares(), made.plan.names, plot, _title(made), made.shares_of)
    if as_json:
        print_json(made.as_dict())
    else:
        _print(made)
    print_written(plot, as_json)


def _title(made: RunPlan) -> str:
    plan = made.plan
    kind = "mixed batches" if plan.mixed else "one task a batch"
    if plan.chooses:
        kind = "chosen among a batch of each task"
    if made.l0_steps:
        kind += f"; the first {made.l0_steps} steps find the ranks (l0)"
    return f"{plan.steps} steps of {plan.batch_size}, {plan.sampler.name}, {kind}"


def _print(made: RunPlan) -> None:
    plan = made.plan
    rows = [
        [r.name, r.size, f"{100 * r.share:.1f}%", r.drawn, r.examples, f"{r.epochs:.2f}"]
        for r in plan.summary()
    ]
    seen = "candidates seen" if plan.chooses else "examples seen"
    print_table(_title(made), ["task", "rows", "share", made.unit, seen, "epochs"], rows)
    epoch = plan.epoch()
    print(f"an epoch of {epoch.task}: {'' if epoch.exact else 'about '}{epoch.steps:.0f} steps")
    if made.padding is not None:
        print(f"padding: {100 * made.padding:.1f}% of the token positions")
    print()
    _print_chart(made)


def _print_chart(made: RunPlan) -> None:
    from rich.console import Console
    from rich.text import Text

    from weft.analysis.plots.plan_chart import changing, chart

    shares = made.plan.shares()
    console = Console(highlight=False)
    width = min(console.width, 120) if console.is_terminal else WIDTH
    plain = not console.encoding.lower().startswith("utf")
    moving = changing(shares)
    print(f"expected share of the {made.shares_of}{'' if moving else ', the same at every step'}")
    if made.plan.chooses:
        print("(what is trained on among them is chosen by the model as it trains: no plan knows it)")
    console.width = max(width, console.width)
    for number, line in enumerate(chart(shares, made.plan.names, width, plain)):
        # texts, not markup: a task may be named o[red]x
        heading = moving and (number == 0 or number > len(made.plan.names))
        console.print(Text(line, style="" if heading else "cyan"), soft_wrap=True)
