"""Cells: the runs of a grid. One cell is one variant with one seed.

A variant is one named entry of the grid with one value of every axis. With `tune`, each variant first has one
cell per combination of the tuned values and tuning seed; when these are done, the values are chosen, and the
variant's own cells use them (`weft.experiments.tuning`). A variant may have tuned values of its own:
`lora: {method: lora, tune: {train.lr: [1e-3, 3e-3]}}`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any

from weft.config.reading import Reading, set_key
from weft.errors import WeftError, did_you_mean
from weft.experiments.grid import Axis, Grid, Place
from weft.experiments.grid_checks import ACTIONS, TUNE, read_axes

BETWEEN = ", "
"""What joins the parts of a variant's name."""
PEER = "peer"
"""The action whose settings name a library and no variant: `{peer: sklearn}`."""


@dataclass(frozen=True)
class Variant:
    """A row of the table.

    Attributes:
        name: unique in its grid.
        labels: the label of each axis, and `variant`.
        settings: the keys that it sets, with their values, in the order in which they are set.
        tune: the tuned keys whose values are not those of the grid.
    """

    name: str
    labels: Mapping[str, str]
    settings: tuple[tuple[Place, Any], ...] = ()
    tune: tuple[Axis, ...] = ()


@dataclass(frozen=True)
class Cell:
    """One run of a grid.

    Attributes:
        variant: the name of its variant.
        seed: its random seed.
        raw: the sections of its run file, complete.
        action: what the cell does instead of training from the encoder, {"grow": {…}}; {}: it trains.
        needs: the names of the cells whose results it uses.
        tuned: the label of each tuned key; {}: the grid tunes nothing.
        trial: whether the cell serves only to choose the tuned values.
    """

    variant: str
    seed: int
    raw: dict[str, Any] = field(hash=False)
    action: Mapping[str, Any] = field(default_factory=dict, hash=False)
    needs: tuple[str, ...] = ()
    tuned: Mapping[str, str] = field(default_factory=dict, hash=False)
    trial: bool = False

    @property
    def name(self) -> str:
        """A unique name in its grid: `lora, uniform · seed 1`; of a trial `… · train.lr=1e-04 · seed 1`."""
        tried = "".join(f" · {key}={label}" for key, label in self.tuned.items()) if self.trial else ""
        return f"{self.variant}{tried} · seed {self.seed}"


def variants_of(grid: Grid) -> list[Variant]:
    """All variants of a grid, in the order of their rows; combinations that are excluded are left out."""
    variants = []
    for entry, settings in grid.variants.items():
        parts = read_axes(TUNE, settings.get(TUNE), Reading(grid.source, grid.folder))
        tune = tuple(Axis(*axis) for axis in parts)
        for labels in product(*[axis.values for axis in grid.axes]):
            at = {axis.key: label for axis, label in zip(grid.axes, labels, strict=True)}
            whole = {**({"variant": entry} if entry else {}), **at}
            if any(_excluded(rule, whole) for rule in grid.exclude if "seed" not in rule):
                continue
            from_axes = tuple((axis.place, axis.values[at[axis.key]]) for axis in grid.axes)
            of_entry = tuple(
                (tuple(str(key).split(".")), value) for key, value in settings.items() if key != TUNE
            )
            name = BETWEEN.join(whole.values()) or "run"
            variants.append(Variant(name, whole, of_entry + from_axes, tune))
    if not variants:
        raise WeftError(f"{grid.source}: exclude leaves out every combination; nothing is left to run")
    names = [variant.name for variant in variants]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise WeftError(f"{grid.source}: two variants are called {twice!r}; label the values of the axes")
    _check_names(grid, names)
    return variants


def cells_of(grid: Grid, chosen: Mapping[str, Mapping[str, str]] | None = None) -> list[Cell]:
    """The cells of a grid.

    Args:
        grid: the grid.
        chosen: with `tune`, the chosen labels of the tuned keys by variant; variants that are not in it have
            only their trials.
    """
    variants = variants_of(grid)
    cells: list[Cell] = []
    for variant in variants:
        for labels in trials_of(grid, variant):
            for seed in grid.seeds[: grid.tune.seeds] if grid.tune else ():
                cells.append(_cell(grid, variant, seed, variants, labels, trial=True))
        labels = {} if grid.tune is None else (chosen or {}).get(variant.name)
        if labels is not None:
            cells += [_cell(grid, variant, seed, variants, labels) for seed in grid.seeds]
    return [cell for cell in cells if not _seed_excluded(grid, variants, cell)]


def tuned_axes(grid: Grid, variant: Variant | None = None) -> tuple[Axis, ...]:
    """The tuned keys with the values that are tried: those of the variant, else those of the grid."""
    of_variant = {axis.key: axis for axis in variant.tune} if variant else {}
    return tuple(of_variant.get(axis.key, axis) for axis in grid.tune.over) if grid.tune else ()


def trials_of(grid: Grid, variant: Variant | None = None) -> list[dict[str, str]]:
    """Every combination of the tuned values, as labels; [] without `tune`.

    Args:
        grid: the grid.
        variant: a variant, which may have values of its own; None: the values of the grid.
    """
    if grid.tune is None:
        return []
    axes = tuned_axes(grid, variant)
    return [
        dict(zip((a.key for a in axes), labels, strict=True)) for labels in product(*[a.values for a in axes])
    ]


def in_order(cells: Sequence[Cell]) -> list[Cell]:
    """Sort cells so that each comes after those that it needs.

    Raises:
        WeftError: if cells need each other, or one that is excluded.
    """
    by_name = {cell.name: cell for cell in cells}
    done: dict[str, Cell] = {}
    waiting: list[str] = []

    def visit(name: str) -> None:
        if name in done:
            return
        if name in waiting:
            circle = " → ".join([*waiting[waiting.index(name) :], name])
            raise WeftError(f"these runs need each other: {circle}")
        waiting.append(name)
        for need in by_name[name].needs:
            if need not in by_name:
                raise WeftError(f"the run {name!r} uses the run {need!r}, which exclude leaves out")
            visit(need)
        waiting.pop()
        done[name] = by_name[name]

    for cell in cells:
        visit(cell.name)
    return list(done.values())


def _cell(
    grid: Grid,
    variant: Variant,
    seed: int,
    variants: Sequence[Variant],
    tuned: Mapping[str, str],
    trial: bool = False,
) -> Cell:
    """One run of a variant, with its settings in place."""
    raw = deepcopy(grid.raw)
    reading = Reading(grid.source, grid.folder)
    for place, value in _settings(grid, variant, tuned):
        set_key(raw, place, deepcopy(value), reading)
    set_key(raw, ("train", "seed"), seed, reading)
    if grid.tune is not None:
        set_halves(raw.get("tasks"))
    if reading.found:
        mistakes = "\n".join(f"  {'.'.join(place)}: {text}" for place, text in reading.found)
        raise WeftError(f"{grid.source}: variant {variant.name!r} cannot be made:\n{mistakes}")
    action = {key: raw.pop(key) for key in ACTIONS if key in raw}
    _root_of_new_task(action, raw)
    cell = Cell(variant.name, seed, raw, action, tuned=dict(tuned), trial=trial)
    needs = [needed_variant(grid, name, variant, variants) for name in needed_names(action)]
    if grid.tune is not None and needs:
        raise WeftError(
            f"{grid.source}: variant {variant.name!r} uses other runs, which tune cannot choose for"
        )
    return replace(cell, needs=tuple(replace(cell, variant=name, trial=False).name for name in needs))


def _root_of_new_task(action: Mapping[str, Any], raw: Mapping[str, Any]) -> None:
    """Give the suite of a new task (`grow`) the run's data folder, so that `tasks.root=DATA` suffices."""
    grow, tasks = action.get("grow"), raw.get("tasks")
    new = grow.get("tasks") if isinstance(grow, dict) else None
    entries = tasks if isinstance(tasks, list) else [tasks]
    roots = [entry["root"] for entry in entries if isinstance(entry, dict) and "root" in entry]
    if isinstance(new, dict) and "suite" in new and roots:
        new.setdefault("root", roots[0])


def set_halves(tasks: Any) -> None:
    """Halve the validation rows of every task of a run file; see `weft.experiments.tuning`.

    Args:
        tasks: the section `tasks`: a suite, tasks by name, or a list of these; changed in place.
    """
    if isinstance(tasks, list):
        for entry in tasks:
            set_halves(entry)
    elif isinstance(tasks, dict) and ("suite" in tasks or "name" in tasks):
        tasks["halves"] = True
    elif isinstance(tasks, dict):
        for entry in tasks.values():
            if isinstance(entry, dict):
                entry["halves"] = True


def _settings(grid: Grid, variant: Variant, tuned: Mapping[str, str]) -> Iterator[tuple[Place, Any]]:
    """The settings of a cell, the strongest last."""
    yield from grid.scaled
    yield from variant.settings
    axes = tuned_axes(grid, variant) if tuned else ()
    yield from ((axis.place, axis.values[tuned[axis.key]]) for axis in axes)
    yield from grid.overridden


def needed_names(action: Mapping[str, Any]) -> list[str]:
    """The variants that an action names; a peer uses no run."""
    for name, value in action.items():
        if name == PEER:
            continue
        if isinstance(value, str):
            return [value]
        if isinstance(value, list):
            return [str(name) for name in value]
        if isinstance(value, dict) and "from" in value:
            named = value["from"]
            return [str(name) for name in named] if isinstance(named, list) else [str(named)]
    return []


def needed_variant(grid: Grid, name: str, variant: Variant, variants: Sequence[Variant]) -> str:
    """The full name of a variant that another one names; the labels of axes are those of the other one.

    `start_from: shared` in the variant `tuned, lora` means `shared, lora`.
    """
    names = [other.name for other in variants]
    if name in names:
        return name
    near = [
        other.name
        for other in variants
        if other.labels.get("variant") == name
        and all(other.labels.get(key) == label for key, label in variant.labels.items() if key != "variant")
    ]
    if near:
        return near[0]
    known = [*dict.fromkeys(other.labels.get("variant", "") for other in variants), *names]
    raise WeftError(
        f"{grid.source}: variant {variant.name!r} uses the run of {name!r}, which does not exist; "
        f"{did_you_mean(name, known)}"
    )


def _check_names(grid: Grid, names: Sequence[str]) -> None:
    """Check that the variants that the grid compares exist."""
    wanted = [("baseline", grid.baseline)] if grid.baseline else []
    wanted += [("contrasts", name) for pair in grid.contrasts for name in pair]
    for key, name in wanted:
        if name not in names:
            raise WeftError(
                f"{grid.source}: {key}: there is no variant {name!r}; {did_you_mean(str(name), names)}"
            )


def _excluded(rule: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    return all(labels.get(key) == str(value) for key, value in rule.items() if key != "seed")


def _seed_excluded(grid: Grid, variants: Sequence[Variant], cell: Cell) -> bool:
    labels = next(variant.labels for variant in variants if variant.name == cell.variant)
    return any(
        rule["seed"] == cell.seed and _excluded(rule, labels) for rule in grid.exclude if "seed" in rule
    )
