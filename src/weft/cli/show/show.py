"""`weft show`: the group of subcommands, and the two short ones, `params` and `methods`."""

from __future__ import annotations

from typing import Any

import typer

from weft.cli.commands.compact import sparsity
from weft.cli.options import Basis, Json, Overrides, RunFileArgument
from weft.cli.output import print_json, print_table
from weft.cli.show.attention import attention
from weft.cli.show.averages import averages
from weft.cli.show.covariance import covariance
from weft.cli.show.difficulty import difficulty
from weft.cli.show.plan import plan
from weft.cli.show.similarity import similarity
from weft.cli.show.spread import spread
from weft.cli.show.storage import storage

show = typer.Typer(
    help="Show facts about a run file, a saved model or a run.\n\nExample: weft show plan quickstart",
    no_args_is_help=True,
)


@show.command()
def params(
    source: RunFileArgument, overrides: Overrides = None, basis: Basis = None, as_json: Json = False
) -> None:
    """Count the parameters of the model that a run file describes.

    Prints the parameters of the encoder, those that all tasks share, and those of each task with its head.

    Example: weft show params quickstart method=lora
    """
    from weft.config import load_run
    from weft.config.build import ledger_of
    from weft.core.basis import parse_basis

    rounded_size = None if basis is None else parse_basis(basis)
    run = load_run(source, overrides or [])
    ledger = ledger_of(run, rounded_size)
    if as_json:
        print_json(ledger)
        return
    rows: list[list[Any]] = [
        ["encoder", ledger["encoder"], ""],
        ["added for all tasks", ledger["shared"], ""],
    ]
    rows += [
        [f"added for {name}", count, ledger["heads"][name]] for name, count in ledger["per_task"].items()
    ]
    print_table(
        f"{run.encoder}, {run.method.name}", ["part of the model", "parameters", "and in the head"], rows
    )
    print(f"all tasks together: {ledger['total_ratio']:.4f} times the encoder, without heads")
    print(f"trained per task: {ledger['trained_percent_per_task']:.4f}% of the encoder")
    if (paper := ledger["paper"]) is not None:
        percent = paper["trained_percent_per_task"]
        if percent is None:
            print(f"the paper reports {paper['total_ratio']:.2f} ({paper['why']})")
        else:
            print(f"as the paper counts: {paper['total_ratio']:.4f}, {percent:.4f}% ({paper['why']})")


@show.command()
def methods(as_json: Json = False) -> None:
    """List all methods and their settings.

    A run file selects one with `method: NAME`, or with settings: `method: {use: NAME, rank: 4}`.

    Example: weft show methods
    """
    from weft.methods.describe import describe_methods

    descriptions = describe_methods()
    if as_json:
        print_json(descriptions)
        return
    for name, facts in descriptions.items():
        print(f"{name}: {facts['about']}")
        for key, field in facts["settings"].items():
            print(f"    {key} = {field['default']!r}  {field['about'] or ''}")


for command in (attention, averages, covariance, difficulty, plan, similarity, sparsity, spread, storage):
    show.command()(command)
