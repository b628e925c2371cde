"""`weft show`: the group of subcommands, and the short one, `methods`."""

from __future__ import annotations

import typer

from weft.cli.commands.compact import sparsity
from weft.cli.options import Json
from weft.cli.output import print_json
from weft.cli.show.attention import attention
from weft.cli.show.averages import averages
from weft.cli.show.composition import composition
from weft.cli.show.covariance import covariance
from weft.cli.show.curves import curves
from weft.cli.show.difficulty import difficulty
from weft.cli.show.params import params
from weft.cli.show.plan import plan
from weft.cli.show.recipes import recipes
from weft.cli.show.similarity import similarity
from weft.cli.show.spread import spread
from weft.cli.show.storage import storage

show = typer.Typer(
    help="Show facts about a run file, a saved model or a run.\n\nExample: weft show plan quickstart",
    no_args_is_help=True,
)


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


for command in (
    attention,
    averages,
    composition,
    covariance,
    curves,
    difficulty,
    params,
    plan,
    recipes,
    similarity,
    sparsity,
    spread,
    storage,
):
    show.command()(command)
