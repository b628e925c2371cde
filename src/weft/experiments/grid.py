"""Grid: many runs that differ in a few settings, as a GRID.yaml describes them.

```yaml
title: How often should each task be sampled?
base: run.yaml                  # a run file or a preset; or `run:` with its sections
seeds: 5                        # 1 to 5; or a list
axes:                           # every combination of these is a variant
  method: [full, lora]
variants:                       # each with each combination of the axes
  proportional: {}
  uniform: {train.sampler: uniform}
exclude: [{variant: uniform, method: lora}]
baseline: "proportional, full"  # every other variant is compared with it
claims:
  - {text: sampling matters, test: "average('uniform, full') >= average('proportional, full')"}
```

A key with dots is a key of the run file, as on the command line of `weft train`. All mistakes are reported at
once, with their lines, before anything is trained. No torch is imported.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from weft.config.reading import Reading, override_key, parse
from weft.config.run_file import SECTIONS, opened, stop_if_wrong
from weft.errors import WeftError, did_you_mean, run_file_words
from weft.evaluation.selection import AVERAGE
from weft.experiments.grid_checks import (
    check_entries,
    check_own_tuning,
    read_axes,
    read_cautions,
    read_claims,
    read_contrasts,
    read_exclude,
    read_keep,
    read_measures,
    read_seeds,
    read_tune,
    read_word,
)
from weft.experiments.groups import read_groups
from weft.utils.safe_yaml import YamlError, parse_yaml, read_text

KEYS = (
    *("title", "about", "base", "run", "seeds", "axes", "variants", "exclude", "tune", "report", "average"),
    *("baseline", "contrasts", "claims", "published", "scale", "scales", "keep"),
    *("measures", "cautions", "groups"),
)
"""The keys of a grid."""

RECIPE = "recipe:"
"""What the source of a recipe begins with."""

Place = tuple[str, ...]
"""A key of a run file, such as ("train", "lr")."""


@dataclass(frozen=True)
class Axis:
    """Values of one key.

    Attributes:
        place: the key.
        values: each value by the label that names it in tables.
    """

    place: Place
    values: Mapping[str, Any]

    @property
    def key(self) -> str:
        """The key with dots."""
        return ".".join(self.place)


@dataclass(frozen=True)
class Tune:
    """Settings that are chosen for each variant, on one half of validation.

    Attributes:
        over: the keys and the values that are tried, in every combination.
        seeds: how many of the grid's seeds each combination is tried with.
    """

    over: tuple[Axis, ...]
    seeds: int = 1


@dataclass(frozen=True)
class Claim:
    """A sentence that the results may hold up or not.

    Attributes:
        text: the sentence.
        test: the expression; see `weft.experiments.claims`.
    """

    text: str
    test: str


@dataclass(frozen=True)
class Grid:
    """A checked grid.

    Attributes:
        source: the file, for messages.
        title: the title of its tables.
        about: what the grid is for, in a few sentences.
        raw: the sections of the base run file, with the scale's and the command line's settings.
        folder: the folder that paths in these sections start from.
        seeds: the random seeds, one run each.
        axes: the axes.
        variants: the settings of each variant by its name; {"": {}} if the grid names none.
        exclude: combinations that are left out: labels by axis, `variant` or `seed`.
        tune: what is chosen for each variant; None: nothing.
        report: the split that the tables report, `validation` or `test`.
        average: how scores are averaged: `average`, the mean of the tasks' scores; one of the averages of
            papers (`weft.evaluation.averages`); or a task, whose score is then what verdicts are about.
        baseline: the variant that every other one is compared with; None: none.
        contrasts: further pairs of variants that are compared.
        claims: the claims.
        published: what a paper printed: the source, and its values by variant and column.
        keep: whether the runs' weights are kept.
        scaled: the keys that the scale sets in every run, with their values; a variant's own are stronger.
        overridden: the keys that the command line has set in every run, with their values.
        measures: what is measured of every finished run besides its scores; see `weft.experiments.measures`.
        cautions: what must not be concluded from the results, one sentence or more each.
        groups: the tasks of each group that tables have an average of; see `weft.experiments.groups`.
    """

    source: str
    title: str
    about: str
    raw: dict[str, Any]
    folder: Path
    seeds: tuple[int, ...]
    axes: tuple[Axis, ...]
    variants: Mapping[str, Mapping[str, Any]]
    exclude: tuple[Mapping[str, Any], ...] = ()
    tune: Tune | None = None
    report: str = "validation"
    average: str = AVERAGE
    baseline: str | None = None
    contrasts: tuple[tuple[str, str], ...] = ()
    claims: tuple[Claim, ...] = ()
    published: Mapping[str, Any] = field(default_factory=dict)
    keep: bool = False
    scaled: tuple[tuple[Place, Any], ...] = ()
    overridden: tuple[tuple[Place, Any], ...] = ()
    measures: tuple[str, ...] = ()
    cautions: tuple[str, ...] = ()
    groups: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The name of the recipe, or of the file without its ending: it names folders."""
        if self.source.startswith(RECIPE):
            return self.source.removeprefix(RECIPE)
        return Path(self.source).stem


def load_grid(source: str | Path, overrides: Sequence[str] = ()) -> Grid:
    """Read a grid, with `key=value` overrides on top.

    An override of a grid's own key (`seeds=3`, `scale=paper`) changes the grid; any other is a key of the run
    file and holds for every run, whatever its variant sets.

    Args:
        source: a YAML file.
        overrides: such as `seeds=3` or `train.steps=200`; values are read as YAML.
    """
    path = Path(source)
    if not path.is_file():
        raise WeftError(
            f"there is no grid {str(source)!r}; expected a YAML file, or recipe:NAME "
            "(to list the recipes: weft show recipes)"
        )
    return read_grid(read_text(path), str(path), path.parent, overrides)


def read_grid(text: str, source: str, folder: Path, overrides: Sequence[str] = ()) -> Grid:
    """Check the text of a grid; one error lists all mistakes.

    Args:
        text: YAML.
        source: where it comes from, for messages.
        folder: the folder that paths in it start from.
        overrides: see `load_grid`.
    """
    with run_file_words():
        reading = Reading(source, folder)
        raw = parse(text, reading)
        of_runs = [
            override for override in overrides if override.partition(".")[0].partition("=")[0] in SECTIONS
        ]
        for override in overrides:
            if override not in of_runs:
                override_key(raw, override, reading)
        for key in raw:
            if key not in KEYS:
                hint = " (settings of runs belong under run)" if key in SECTIONS else ""
                reading.wrong([key], f"no such key{hint}; {did_you_mean(key, KEYS)}")
        scaled = _scale(raw, reading)  # first: a scale may have another base
        base, base_folder = _base(raw, reading)
        overridden = _of_runs(of_runs, reading)
        seeds = read_seeds(raw.get("seeds", 1), reading)
        axes = tuple(Axis(*axis) for axis in read_axes("axes", raw.get("axes"), reading))
        variants = check_entries(raw.get("variants"), reading)
        tune = read_tune(raw.get("tune"), len(seeds), reading)
        tuned = None if tune is None else [".".join(place) for place, _ in tune[0]]
        check_own_tuning(variants, tuned, reading)
        grid = Grid(
            source=source,
            title=read_word("title", raw.get("title", Path(source).stem), reading),
            about=read_word("about", raw.get("about", ""), reading),
            raw=base,
            folder=base_folder,
            seeds=seeds,
            axes=axes,
            variants=variants,
            exclude=read_exclude(raw.get("exclude"), [axis.key for axis in axes], reading),
            tune=None if tune is None else Tune(tuple(Axis(*axis) for axis in tune[0]), tune[1]),
            report=read_word("report", raw.get("report", "validation"), reading, ("validation", "test")),
            average=read_word("average", raw.get("average", AVERAGE), reading) or AVERAGE,
            baseline=read_word("baseline", raw.get("baseline"), reading) or None,
            contrasts=read_contrasts(raw.get("contrasts"), reading),
            claims=tuple(Claim(*claim) for claim in read_claims(raw.get("claims"), reading)),
            published=_mapping("published", raw.get("published"), reading),
            keep=read_keep(raw.get("keep", False), reading),
            scaled=tuple(scaled),
            overridden=tuple(overridden),
            measures=read_measures(raw.get("measures"), reading),
            cautions=read_cautions(raw.get("cautions"), reading),
            groups=read_groups(raw.get("groups"), reading),
        )
        stop_if_wrong(reading)
        return grid


def _base(raw: Mapping[str, Any], reading: Reading) -> tuple[dict[str, Any], Path]:
    """The sections that all runs begin from, and the folder of their paths."""
    base, run = raw.get("base"), raw.get("run")
    sections: dict[str, Any] = {}
    folder = reading.folder
    if base is None and run is None:
        reading.wrong(["base"], "expected a run file or a preset, or run: with the sections of a run file")
    if base is not None and not isinstance(base, str):
        reading.wrong(["base"], f"expected the name of a run file or of a preset; found {base!r}")
    elif base is not None:
        beside = reading.path(base)
        try:
            sections, of_base = opened(beside if beside.exists() else base)
            folder = of_base.folder
            for place, text in of_base.found:
                reading.wrong(["base"], f"{base}: {'.'.join(place)}: {text}")
        except WeftError as wrong:
            reading.wrong(["base"], str(wrong))
    if run is not None and not isinstance(run, dict):
        reading.wrong(["run"], f"expected the sections of a run file; found {run!r}")
    elif run is not None and isinstance(base, str):
        reading.wrong(["run"], "a grid has base or run, not both; settings for all runs may be in variants")
    elif run is not None:
        sections = {str(key): value for key, value in deepcopy(run).items()}
    return sections, folder


def _scale(raw: dict[str, Any], reading: Reading) -> list[tuple[Place, Any]]:
    """The settings of the scale that is chosen."""
    scales, scale = raw.get("scales"), raw.get("scale")
    if scales is None:
        if scale is not None:
            reading.wrong(["scale"], f"{scale!r}; the grid has no scales")
        return []
    if not isinstance(scales, dict) or not all(isinstance(entry, dict) for entry in scales.values()):
        reading.wrong(
            ["scales"], f"expected names with settings, such as small: {{train.steps: 100}}; found {scales!r}"
        )
        return []
    if scale is None:
        reading.wrong(["scales"], f"write scale: NAME, one of {', '.join(map(str, scales))}")
        return []
    if scale not in scales:
        reading.wrong(["scale"], f"{scale!r} does not exist; {did_you_mean(str(scale), list(scales))}")
        return []
    places = {tuple(str(key).split(".")): value for key, value in scales[scale].items()}
    for place, value in places.items():
        if place[0] in KEYS and (place[0],) not in reading.overridden:
            raw[place[0]] = value
    return [(place, value) for place, value in places.items() if place[0] not in KEYS]


def _of_runs(overrides: Sequence[str], reading: Reading) -> list[tuple[Place, Any]]:
    """The overrides that hold for every run, as keys and values."""
    made = []
    for override in overrides:
        key, equals, text = override.partition("=")
        place = tuple(key.strip().split("."))
        reading.overridden.add(place)
        try:
            made.append((place, parse_yaml(text)))
        except YamlError:
            reading.wrong(place, f"the value {text!r} cannot be read as YAML")
        if not equals:
            reading.wrong(place, "expected key=value, such as train.steps=500")
    return made


def _mapping(key: str, value: object, reading: Reading) -> dict[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        reading.wrong([key], f"expected names with values; found {value!r}")
        return {}
    return value
