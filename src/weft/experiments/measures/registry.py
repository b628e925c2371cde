"""The measures by name, and taking them of a finished run.

A measure reads the run's folder and returns values by name: a number, or one number per task, pair of tasks
or site. They are kept in `Record.measures`. In a claim, `measure(v, NAME)` is a number (of values per task
their mean), `measure(v, NAME, TASK)` that of one task, and the name of a measure per task is a series:
`rank_correlation(difficulty, first_peak)`. A measure that does not apply to a run (`applies`) is not taken of
it, so that one grid can measure runs of different kinds.

| measure | values |
|---|---|
| data_used | `data_used`: the share of all training rows that was trained on, in percent |
| composition | `composition`: the share of each task among the examples trained on, in percent |
| speed | `speed`: seconds per 1,000 steps of the steady state, without evaluations |
| examples_per_second | `examples_per_second`: of all steps |
| sparsity | `weights_kept`, `biases_kept`: components that L0 gates have kept, in percent; `components_kept`:
  their number at each site |
| uncertainty | `uncertainty`: mean entropy of each task's outputs; needs train.measure_uncertainty |
| first_peak | `first_peak`: the step around which MT-Uncertainty first chooses many examples of each task |
| difficulty | `difficulty`: the difficulty of each task (EDM), from its training rows |
| covariance | `covariance`: mean CovSim of each task with the others; `covariance_pairs`, `covariance_self`:
  that of each pair, and of each task with itself |
| similarity | cosines of updates of one kind of map: `query_within`, `query_between`, `query_apart`,
  `query_mean`, and of each pair of tasks `query_pairs`; the same of `key`, `ffn_in_bias`, … |
| storage | `incremental`, `bundled`: parameters in millions, as multitask LoRA counts |
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from weft.encoder.sites import LINEAR, NORM
from weft.experiments.measures.of_log import (
    Value,
    composition,
    data_used,
    examples_per_second,
    first_peak,
    sparsity,
    speed,
    uncertainty,
)
from weft.experiments.measures.of_weights import (
    BLOCK_MEANS,
    PAIRS,
    covariance,
    difficulty,
    of_updates,
    similarity,
    storage,
)
from weft.methods.ranked import l0_of

if TYPE_CHECKING:
    from weft.config.run_file import RunFile

Measure = Callable[[Path], dict[str, Value]]
Form = Literal["number", "task", "pair", "site"]
"""What a value is: a number, or one number per task, per pair of tasks, or per site."""

MEASURED = "measured"
"""The key of `Record.measures` that lists what was measured. A measure may have no value for a run."""
FAILED = "not_measured"
"""The key of `Record.measures` that says why measures could not be taken, by their names."""

MEASURES: Mapping[str, Measure] = {
    "data_used": data_used,
    "composition": composition,
    "speed": speed,
    "examples_per_second": examples_per_second,
    "sparsity": sparsity,
    "uncertainty": uncertainty,
    "first_peak": first_peak,
    "difficulty": difficulty,
    "covariance": covariance,
    "similarity": similarity,
    "storage": storage,
}
"""Every measure by its name."""

OF_LOG = ("data_used", "composition", "speed", "examples_per_second")
"""Measures that cost nothing. They are taken of every run: a later grid that lists them trains nothing."""
ALWAYS = (*OF_LOG, "sparsity")
"""The same, as far as they apply to the run."""

PICTURED = ("query", of_updates("ffn_in", "bias"))
"""The similarities of updates that pages show; records have those of every kind of map."""
_UPDATES = tuple(of_updates(kind, part) for kind in (*LINEAR, *NORM) for part in ("weight", "bias"))

VALUES: Mapping[str, str] = {
    **{name: name for name in ("data_used", "composition", "speed", "examples_per_second")},
    **dict.fromkeys(("weights_kept", "biases_kept", "components_kept"), "sparsity"),
    **{name: name for name in ("uncertainty", "first_peak", "difficulty")},
    **dict.fromkeys(("covariance", f"covariance_{PAIRS}", "covariance_self"), "covariance"),
    **{f"{name}_{key}": "similarity" for name in _UPDATES for key in (*BLOCK_MEANS, PAIRS)},
    **dict.fromkeys(("incremental", "bundled"), "storage"),
}
"""The measure that returns each value."""

EXACT = ("storage", "difficulty")
"""Measures that follow from the settings and the data, and do not vary with the seed."""

_PER_TASK = ("composition", "uncertainty", "first_peak", "difficulty", "covariance", "covariance_self")
_ON_PAGES = tuple(f"{name}_{key}" for name in PICTURED for key in (*BLOCK_MEANS, PAIRS))
_NOT_ON_PAGES = (
    *("components_kept", "covariance_self"),
    *(name for name, of in VALUES.items() if of == "similarity" and name not in _ON_PAGES),
)


def form_of(name: str) -> Form:
    """What a value is.

    Args:
        name: of `VALUES`.
    """
    if name == "components_kept":
        return "site"
    if name.endswith(f"_{PAIRS}"):
        return "pair"
    return "task" if name in _PER_TASK else "number"


def on_pages(name: str, wanted: Collection[str]) -> bool:
    """Whether pages show a value: they show what their grid lists, and not every number of that.

    Args:
        name: the name of a value, of `VALUES` or of an action.
        wanted: the measures that the grid lists.
    """
    return name not in VALUES or (VALUES[name] in wanted and name not in _NOT_ON_PAGES)


def measure_run(
    names: Sequence[str], folder: Path, say: Callable[[str], object] | None = None
) -> dict[str, Any]:
    """Take measures of a finished run.

    Args:
        names: of `MEASURES`.
        folder: the run's folder, with its bundle if a measure needs the weights.
        say: gets a line about each measure that cannot be taken: the run is trained, and the others are kept.
            None: such a measure raises its error.

    Returns:
        The values of all measures by name; with `say` also which were taken (`MEASURED`), and why others were
        not (`FAILED`). Values that are not numbers are left out.
    """
    values: dict[str, Value] = {}
    failed: dict[str, str] = {}
    for name in names:
        try:
            values |= MEASURES[name](folder)
        except Exception as wrong:
            if say is None:
                raise
            failed[name] = f"{type(wrong).__name__}: {wrong}"
            say(f"measure {name} could not be taken: {failed[name]}\n{traceback.format_exc()}")
    finite: dict[str, Any] = {name: _finite(value) for name, value in values.items() if value == value}
    if say is not None:
        finite[MEASURED] = sorted(name for name in names if name not in failed)
        finite |= {FAILED: failed} if failed else {}
    return finite


def _finite(value: Value) -> Value:
    return {task: x for task, x in value.items() if x == x} if isinstance(value, dict) else value


def measured(measures: Mapping[str, Any]) -> tuple[str, ...]:
    """The measures that a record holds: those it lists, and those whose values it has.

    Args:
        measures: `Record.measures`.
    """
    listed = measures.get(MEASURED, ())
    names = [*(listed if isinstance(listed, list) else ()), *(VALUES.get(value) for value in measures)]
    return tuple(dict.fromkeys(name for name in names if isinstance(name, str) and name in MEASURES))


def not_measured(measures: Mapping[str, Any]) -> dict[str, str]:
    """Why measures of a record could not be taken.

    Args:
        measures: `Record.measures`.
    """
    failed = measures.get(FAILED)
    return {str(name): str(why) for name, why in failed.items()} if isinstance(failed, dict) else {}


def applies(name: str, run: RunFile) -> bool:
    """Whether a measure can be taken of a run: of updates, if its method adds any; of gates, if it has
    some; of choices and of uncertainty, if the run has lines of them in its log.

    Args:
        name: the measure.
        run: the run file.
    """
    if name == "similarity":
        return not run.method.separate and len(run.tasks) > 1 and all(part.adds for part in run.method.parts)
    if name == "first_peak":
        return bool(run.training.sampler["use"] == "mt_uncertainty")
    if name == "uncertainty":
        return run.training.measure_uncertainty > 0
    if name == "sparsity":
        return l0_of(run.method) is not None
    return True
