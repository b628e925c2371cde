"""Recipes: the grids that ship with weft, one per table or figure of a paper.

A recipe is a grid (`weft.experiments.grid`) with three more keys:

- `paper`: the work, and its table or figure.
- `like`: a recipe whose keys it takes over; its own keys replace them, those of `scales` one by one. Recipes
  of the same runs, such as a table and the figure beside it, so have one definition, and equal runs are
  trained once. A file whose name begins with `_` is no recipe: it holds what several recipes have in common.
- `base` may be a preset only, since a recipe is in no folder of the user's.

An entry of `cautions` that is a key of `_cautions.yaml` stands for the text there, so that all pages say the
same thing in the same words.

A recipe has the scales `small` (the default: the encoder `minilm`, one GPU) and, if a paper describes it,
`paper` (the paper's encoder, steps and seeds). Some have `base`: the runs of `small` with 12 layers.

A scale may be `like` another one, whose settings it takes over: its own replace them, and of `variants` those
of each variant one by one. Recipes that are like this one do not have such a scale.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

import yaml

from weft.config.presets import preset_text
from weft.errors import WeftError, did_you_mean
from weft.experiments.cells import cells_of, trials_of, variants_of
from weft.experiments.grid import RECIPE, Grid, read_grid
from weft.utils.safe_yaml import parse_yaml

"""What a recipe's name begins with on the command line: `weft compare recipe:pals-table3`."""
FILES = "weft.experiments.recipe_files"
LIKE = "like"
OF_RECIPES = ("paper", LIKE)
"""The keys that a grid does not have."""
COMMON = "_"
"""What the name of a file begins with that is no recipe."""
CAUTIONS = "_cautions"
"""The file with the texts that `cautions` name."""


@dataclass(frozen=True)
class Recipe:
    """What `weft show recipes` lists.

    Attributes:
        name: as in `weft compare recipe:NAME`.
        title: what it compares.
        paper: the work, and its table or figure.
        about: what it needs, and how it differs from the paper.
        runs: the number of runs by scale, those that only choose tuned values included.
    """

    name: str
    title: str
    paper: str
    about: str
    runs: Mapping[str, int]

    def to_dict(self) -> dict[str, Any]:
        """The recipe for JSON."""
        return {
            "title": self.title,
            "paper": self.paper,
            "about": self.about,
            "runs": dict(self.runs),
        }


def recipe_names() -> list[str]:
    """The names of the recipes."""
    return [name for name in _file_names() if not name.startswith(COMMON)]


def is_recipe(source: str | Path) -> bool:
    """Whether a name on the command line is that of a recipe, `recipe:NAME`."""
    return str(source).startswith(RECIPE)


def load_recipe(name: str, overrides: Sequence[str] = ()) -> Grid:
    """Read a recipe, with `key=value` overrides on top.

    Args:
        name: its name, with or without `recipe:`.
        overrides: as of `weft.experiments.grid.load_grid`; `tasks.root=DATA` names the folder of the data,
            `scale=paper` the scale.
    """
    name = name.removeprefix(RECIPE)
    sections = recipe_sections(name)
    text = yaml.safe_dump(
        {key: value for key, value in sections.items() if key not in OF_RECIPES},
        sort_keys=False,
        allow_unicode=True,
    )
    return read_grid(text, f"{RECIPE}{name}", Path.cwd(), overrides)


def recipe_scales(name: str) -> list[str]:
    """The scales of a recipe, the default one first."""
    sections = recipe_sections(name)
    scales = [str(scale) for scale in sections.get("scales", {})]
    return sorted(scales, key=lambda scale: scale != sections.get("scale"))


def recipe(name: str) -> Recipe:
    """What there is to know about a recipe, without running it."""
    sections = recipe_sections(name)
    runs = {scale: run_count(load_recipe(name, [f"scale={scale}"])) for scale in recipe_scales(name)}
    return Recipe(
        name,
        str(sections["title"]),
        str(sections["paper"]),
        " ".join(str(sections.get("about", "")).split()),
        runs,
    )


def run_count(grid: Grid) -> int:
    """The number of runs of a grid: its cells, and with `tune` those that choose the values too.

    The run that was chosen is one of these: it is not trained again.
    """
    if grid.tune is None:
        return len(cells_of(grid))
    first = {v.name: trials_of(grid, v)[0] for v in variants_of(grid)}  # any choice: their number is equal
    cells = cells_of(grid, first)
    return len({(cell.variant, cell.seed, tuple(cell.tuned.items())) for cell in cells})


def recipe_sections(name: str) -> dict[str, Any]:
    """The keys of a recipe, with those of the recipe and the scales it is like, and its preset as `run`."""
    return deepcopy(_sections(name))


def _file_names() -> list[str]:
    files = resources.files(FILES).iterdir()
    return sorted(p.name.removesuffix(".yaml") for p in files if p.name.endswith(".yaml"))


@cache
def _sections(name: str) -> dict[str, Any]:
    known = recipe_names()
    if name not in known:
        raise WeftError(
            f"there is no recipe {name!r}; {did_you_mean(name, known)}\n  to list them: weft show recipes"
        )
    sections = _read(name)
    for scale, settings in sections.get("scales", {}).items():
        if LIKE in settings:
            sections["scales"][scale] = _like_scale(sections["scales"], settings)
    return sections


def _like_scale(scales: Mapping[str, Mapping[str, Any]], settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a scale over those of the scale that it is like; of variants one by one."""
    below = scales[settings[LIKE]]
    variants = below.get("variants", {})
    own = settings.get("variants", {})
    merged = {name: {**variants.get(name, {}), **own.get(name, {})} for name in {**variants, **own}}
    whole = _merged(below, {**settings, "variants": merged or None})
    return {key: value for key, value in whole.items() if key != LIKE}


def _read(name: str) -> dict[str, Any]:
    """The keys of a file, over those of the file that it is like."""
    sections = _parsed(name)
    parent = sections.get(LIKE)
    if parent is not None:
        sections = _over(_read(parent), sections)
    for part in (sections, *sections.get("scales", {}).values()):
        if "base" in part:
            part["run"] = parse_yaml(preset_text(part.pop("base")))
        if "cautions" in part:
            texts = _parsed(CAUTIONS)
            part["cautions"] = [texts.get(caution, caution) for caution in part["cautions"]]
    return sections


def _parsed(name: str) -> dict[str, Any]:
    sections: dict[str, Any] = parse_yaml((resources.files(FILES) / f"{name}.yaml").read_text("utf-8"))
    return sections


def _over(parent: Mapping[str, Any], sections: Mapping[str, Any]) -> dict[str, Any]:
    """The keys of a recipe over those of the recipe that it is like; a key set to null is left out.

    Scales that are like another one are not taken over: they name variants of that recipe.
    """
    inherited = parent.get("scales", {})
    old = {scale: settings for scale, settings in inherited.items() if LIKE not in settings}
    new = sections.get("scales", {})
    scales = {scale: _merged(old.get(scale, {}), new.get(scale, {})) for scale in {**old, **new}}
    return _merged(parent, {**sections, "scales": scales})


def _merged(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in {**below, **above}.items() if value is not None}
