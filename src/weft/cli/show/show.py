"""`weft show`: what a run would do, what a model would hold, what there is."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from weft.cli.commands.compact import sparsity
from weft.cli.show.attention import attention
from weft.cli.show.averages import averages
from weft.cli.show.covariance import covariance
from weft.cli.show.difficulty import difficulty
from weft.cli.show.plan import plan
from weft.cli.show.similarity import similarity
from weft.cli.show.spread import spread
from weft.cli.show.storage import storage

show = typer.Typer(help="Show a plan, the methods, or what a model holds and does.", no_args_is_help=True)

RunArgument = Annotated[str, typer.Argument(metavar="RUN.yaml", help="a run file, or a preset by name")]
Overrides = Annotated[list[str] | None, typer.Argument(metavar="key=value", help="such as train.steps=500")]
Json = Annotated[bool, typer.Option("--json", help="one JSON object on standard output")]


@show.command()
def params(
    source: RunArgument,
    overrides: Overrides = None,
    basis: Annotated[
        str | None, typer.Option(metavar="110M", help="divide by this too, as papers round the encoder")
    ] = None,
    as_json: Json = False,
) -> None:
    """How many parameters the run's model holds, and for whom."""
    from weft.cli.tables import print_table
    from weft.config import load_run
    from weft.core.basis import parse_basis

    asked = None if basis is None else parse_basis(basis)
    run = load_run(source, overrides or [])
    from weft.model.model import Model

    meta = "meta" if run.encoder.startswith("random:") else None
    heads = {"pool": run.heads.pool, "head_layers": run.heads.layers, "head_hidden": run.heads.hidden}
    ledger = Model(run.encoder, run.tasks, run.method, **heads, device=meta).ledger(asked)  # type: ignore[arg-type]
    if as_json:
        print(json.dumps(ledger))
        return
    rows: list[list[Any]] = [["encoder", ledger["encoder"], ""], ["shared", ledger["shared"], ""]]
    rows += [[name, count, ledger["heads"][name]] for name, count in ledger["per_task"].items()]
    print_table(f"{run.encoder}, {run.method.name}", ["owner", "parameters", "head"], rows)
    print(f"all tasks together: {ledger['total_ratio']:.4f} encoders (heads left out)")
    print(f"trained a task: {ledger['trained_percent_per_task']:.4f}% of the encoder")
    if (paper := ledger["paper"]) is not None:
        percent = paper["trained_percent_per_task"]
        if percent is None:
            print(f"the paper prints {paper['total_ratio']:.2f} ({paper['why']})")
        else:
            print(f"as the paper counts: {paper['total_ratio']:.4f}, {percent:.4f}% ({paper['why']})")


@show.command()
def methods(as_json: Json = False) -> None:
    """The methods there are, with their settings."""
    from weft.methods import METHODS

    told: dict[str, dict[str, Any]] = {}
    for name in METHODS:
        method = METHODS[name]
        first = (method.__doc__ or "").strip().split("\n\n")[0].replace("\n", " ")
        fields = {
            key: {"default": field.get_default(call_default_factory=True), "about": field.description}
            for key, field in method.model_fields.items()
        }
        told[name] = {"about": " ".join(first.split()), "lr": method.default_lr, "settings": fields}
    if as_json:
        print(json.dumps(told))
        return
    for name, facts in told.items():
        print(f"{name}: {facts['about']}")
        for key, field in facts["settings"].items():
            print(f"    {key} = {field['default']!r}  {field['about'] or ''}")


for command in (attention, averages, covariance, difficulty, plan, similarity, sparsity, spread, storage):
    show.command()(command)
