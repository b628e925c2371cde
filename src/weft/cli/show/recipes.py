"""`weft show recipes`: the experiments that ship with weft, one per table or figure of a paper."""

from __future__ import annotations

from weft.cli.options import Json
from weft.cli.output import print_json, print_table

SCALES = ("small", "base", "paper")


def recipes(as_json: Json = False) -> None:
    """List the recipes: experiments for `weft compare`.

    Runs are counted for each scale: small (the default) uses the encoder minilm, base a larger one, paper the
    settings of the paper. Each recipe needs data: tasks.root=DATA; --json says which.

    Example: weft show recipes
    """
    from weft.experiments.recipes import recipe, recipe_names

    listed = [recipe(name) for name in recipe_names()]
    if as_json:
        print_json({"recipes": {entry.name: entry.to_dict() for entry in listed}})
        return
    wide = max(len(entry.name) for entry in listed)
    rows = [
        [f"{entry.name:{wide}}  {entry.paper}", *(entry.runs.get(scale, "-") for scale in SCALES)]
        for entry in listed
    ]
    print_table(
        "number of runs at each scale; run a recipe with: weft compare recipe:NAME tasks.root=DATA",
        [f"{'name':{wide}}  of", *SCALES],
        rows,
    )
