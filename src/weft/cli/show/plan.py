"""`weft show plan`: how often a run would sample each task."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.cli.options import Json, Overrides, Plot, RunFileArgument
from weft.cli.output import print_json, print_table, print_written
from weft.cli.paths import check_plot
from weft.utils.terminal import console, escaped

if TYPE_CHECKING:
    from weft.workflows.plan import RunPlan

WIDTH = 80
"""The width of the chart if the output is not a terminal."""


def plan(
    source: RunFileArgument, overrides: Overrides = None, plot: Plot = None, as_json: Json = False
) -> None:
    """Show how often a run would sample each task.

    Prints the share, steps, examples and epochs of each task and a chart of the shares over the steps. The
    numbers are counted from the plan that training follows. Nothing is trained.

    Example: weft show plan quickstart train.sampler=annealed
    """
    check_plot(plot)
    from weft.config import load_run
    from weft.workflows.plan import plan_run

    run_plan = plan_run(load_run(source, overrides or []))
    # the file first: the reader of a pipe may close it before everything is printed
    if plot is not None:
        from weft.analysis.plots.plan import write_picture

        write_picture(run_plan.plan.shares(), run_plan.plan.names, plot, _title(run_plan), run_plan.shares_of)
    if as_json:
        print_json(run_plan.as_dict())
    else:
        _print(run_plan)
    print_written(plot, as_json)


def _title(run_plan: RunPlan) -> str:
    plan = run_plan.plan
    kind = "mixed batches" if plan.mixed else "one task per batch"
    if plan.chooses:
        kind = "chosen from one batch of each task"
    if run_plan.l0_steps:
        kind += f"; the first {run_plan.l0_steps} steps find the ranks (l0)"
    return f"{plan.steps} steps, batch size {plan.batch_size}, sampler {plan.sampler.name}, {kind}"


def _print(run_plan: RunPlan) -> None:
    plan = run_plan.plan
    rows = [
        [r.name, r.size, f"{100 * r.share:.1f}%", r.drawn, r.examples, f"{r.epochs:.2f}"]
        for r in plan.summary()
    ]
    seen = "candidates seen" if plan.chooses else "examples seen"
    columns = ["task", "training rows", "share", f"sampled {run_plan.unit}", seen, "epochs"]
    print_table(_title(run_plan), columns, rows)
    epoch = plan.epoch()
    print(f"one epoch of {epoch.task}: {'' if epoch.exact else 'about '}{epoch.steps:.0f} steps")
    if run_plan.padding is not None:
        print(f"padding: {100 * run_plan.padding:.1f}% of the token positions")
    print()
    _print_chart(run_plan)


def _print_chart(run_plan: RunPlan) -> None:
    from rich.text import Text

    from weft.analysis.plots.plan_chart import changing, chart

    shares = run_plan.plan.shares()
    screen = console(highlight=False)
    width = min(screen.width, 120) if screen.is_terminal else WIDTH
    plain = not screen.encoding.lower().startswith("utf")
    moving = changing(shares)
    print(f"expected share of the {run_plan.shares_of}{'' if moving else ', the same at every step'}")
    if run_plan.plan.chooses:
        print("(the model chooses among the candidates while it trains; the plan cannot know its choice)")
    screen.width = max(width, screen.width)
    for number, line in enumerate(chart(shares, run_plan.plan.names, width, plain)):
        # Text and not str, which rich would read as markup: a task may be named o[red]x
        heading = moving and (number == 0 or number > len(run_plan.plan.names))
        screen.print(Text(escaped(line), style="" if heading else "cyan"), soft_wrap=True)
