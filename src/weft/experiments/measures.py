"""Measures: numbers of a finished run besides its scores, for `measures: [similarity]` of a grid.

A measure reads the run's folder and returns values by name: a number, or one number per task. They are kept
in `Record.measures`. In a claim, `measure(v, NAME)` is a number (of values per task their mean), and the name
of a measure per task is a series: `rank_correlation(difficulty, first_peak)`. A measure that does not apply
to a run (`applies`) is not taken of it, so that one grid can measure runs of different kinds.

| measure | values |
|---|---|
| data_used | `data_used`: the share of all training rows that was trained on, in percent |
| composition | `composition`: the share of each task among the examples trained on, in percent |
| uncertainty | `uncertainty`: mean entropy of each task's outputs; needs train.measure_uncertainty |
| first_peak | `first_peak`: the step around which MT-Uncertainty first chooses many examples of each task |
| difficulty | `difficulty`: the difficulty of each task (EDM), from its training rows |
| covariance | `covariance`: mean CovSim of each task with the others |
| similarity | cosines of updates: `query_within`, `query_between`, `query_apart`, `query_mean`, and of each
  pair of tasks `query_pairs`; the same of `ffn_in_bias` |
| storage | `incremental`, `bundled`: parameters in millions, as multitask LoRA counts |
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weft.errors import RunFailed, WeftError
from weft.utils.safe_json import parse_json

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from weft.config.run_file import RunFile

Value = float | dict[str, float]
Measure = Callable[[Path], dict[str, Value]]

LOG = "log.jsonl"
MEASURED = "measured"
"""The key of `Record.measures` that lists what was measured. A measure may have no value for a run."""
BLOCK_MEANS = ("within", "between", "apart", "mean")
PAIRS = "pairs"
TIMES = " × "
"""What joins the names of two tasks."""
WINDOW = 50
"""The number of steps that counts of chosen examples are averaged over, before their first peak is found."""


def measure_run(names: Sequence[str], folder: Path) -> dict[str, Value]:
    """Take measures of a finished run.

    Args:
        names: of `MEASURES`.
        folder: the run's folder, with its bundle.

    Returns:
        The values of all measures by name. Values that are not numbers are left out.
    """
    values: dict[str, Value] = {}
    for name in names:
        values |= MEASURES[name](folder)
    return {name: _finite(value) for name, value in values.items() if value == value}


def _finite(value: Value) -> Value:
    return {task: x for task, x in value.items() if x == x} if isinstance(value, dict) else value


def data_used(folder: Path) -> dict[str, Value]:
    """The share of the training rows that the run has seen."""
    shares = [event["data_used"] for event in _log(folder) if "data_used" in event]
    if not shares:
        raise RunFailed(f"{folder / LOG}: no line has data_used; the run has not ended")
    return {"data_used": 100.0 * float(shares[-1])}


def composition(folder: Path) -> dict[str, Value]:
    """The share of each task among all examples that were trained on; those that MT-Uncertainty chose."""
    counts: dict[str, float] = {}
    for event in _log(folder):
        for task, count in event.get("window", {}).get("examples", {}).items():
            counts[task] = counts.get(task, 0.0) + count
    total = sum(counts.values())
    return {"composition": {task: 100 * count / total for task, count in counts.items()}} if total else {}


def uncertainty(folder: Path) -> dict[str, Value]:
    """The mean entropy of each task over the lines `uncertainty` of the log."""
    lines = [event["entropy"] for event in _log(folder) if event.get("event") == "uncertainty"]
    if not lines:
        raise RunFailed(f"{folder / LOG}: no line is of uncertainty; expected train.measure_uncertainty")
    tasks = lines[-1]
    return {"uncertainty": {task: sum(line[task] for line in lines) / len(lines) for task in tasks}}


def first_peak(folder: Path) -> dict[str, Value]:
    """The first peak of the number of chosen examples of each task; see `peak_of`."""
    import numpy as np

    from weft.config import load_run

    names = [task.name for task in load_run(folder / "run.yaml").tasks]
    chosen = [event["task"] for event in _log(folder) if event.get("event") == "chosen"]
    if not chosen:
        raise RunFailed(f"{folder / LOG}: no line is of chosen examples; expected sampler mt_uncertainty")
    counts = np.array([np.bincount(line, minlength=len(names)) for line in chosen], float)  # [steps, T]
    return {
        "first_peak": {
            name: float(peak_of(counts[:, t])) for t, name in enumerate(names) if counts[:, t].any()
        }
    }


def peak_of(counts: NDArray[Any], window: int = WINDOW) -> int:
    """The first step at which smoothed counts are above their mean, and highest within a window.

    Args:
        counts: the examples of one task in each step, [steps].
        window: the length of the moving average, and of the neighbourhood.
    """
    import numpy as np

    width = min(window, max(1, len(counts) // 4))
    smooth = np.convolve(
        np.pad(counts, (width // 2, width - 1 - width // 2), "edge"), np.ones(width), "valid"
    )
    smooth /= width
    high = smooth > smooth.mean()
    for step in np.flatnonzero(high):
        around = smooth[max(0, step - width) : step + width + 1]
        if smooth[step] >= around.max():
            return int(step)
    return int(smooth.argmax())


def difficulty(folder: Path) -> dict[str, Value]:
    """EDM of each classification task, from the training rows."""
    from weft.analysis.difficulty_of_tasks import difficulty_of_tasks
    from weft.config import load_run

    done = difficulty_of_tasks(load_run(folder / "run.yaml").tasks, "train")
    return {"difficulty": {name: float(value.total) for name, value in done.difficulties.items()}}


def covariance(folder: Path) -> dict[str, Value]:
    """The mean CovSim of each task with the others, on validation rows."""
    from weft.workflows.covariance import covariance_of_runs

    done = covariance_of_runs([folder], tell=lambda _: None)
    return {"covariance": dict(zip(done.tasks, map(float, done.averages), strict=True))}


def similarity(folder: Path) -> dict[str, Value]:
    """The mean cosines of the tasks' updates: within kinds of tasks, between kinds, and over all pairs.

    There is no value if no task has an update (L0 has removed all of them), or if updates are not finite.
    """
    from weft.analysis.similarity import similarity as similarity_of
    from weft.bundle.load import load

    try:
        done = similarity_of(load(folder))
    except WeftError:
        return {}
    values: dict[str, Value] = {}
    matrices = (("query", done.average("weight", "query")), ("ffn_in_bias", done.average("bias", "ffn_in")))
    for name, matrix in matrices:
        if matrix is not None:
            values |= {f"{name}_{key}": x for key, x in block_means(done.tasks, matrix).items()}
            values[f"{name}_{PAIRS}"] = {
                f"{second}{TIMES}{first}": float(matrix[i, j])
                for i, first in enumerate(done.tasks)
                for j, second in enumerate(done.tasks[:i])
            }
    return values


def block_means(tasks: Sequence[str], matrix: NDArray[Any]) -> dict[str, float]:
    """The means of a matrix [T, T] over pairs of tasks.

    `within`: of one block of their suite; `between`: of two; `apart`: of the first block and another, as of a
    single sentence and a pair in GLUE; `mean`: all.
    """
    import numpy as np

    from weft.suites import suite_blocks

    block = {
        task: (suite, name)
        for suite, blocks in suite_blocks().items()
        for name, members in blocks.items()
        for task in members
        if set(tasks) <= {t for others in blocks.values() for t in others}
    }
    first_block = next(iter(dict.fromkeys(name for _, name in block.values())), None)
    apart = {task for task in tasks if block and block[task][1] == first_block}
    pairs: dict[str, list[float]] = {key: [] for key in BLOCK_MEANS}
    for i, first in enumerate(tasks):
        for j, second in enumerate(tasks[:i]):
            if np.isnan(matrix[i, j]):
                continue
            pairs["mean"].append(float(matrix[i, j]))
            if block:
                pairs["within" if block[first] == block[second] else "between"].append(float(matrix[i, j]))
            if (first in apart) != (second in apart):
                pairs["apart"].append(float(matrix[i, j]))
    return {key: sum(values) / len(values) for key, values in pairs.items() if values}


def storage(folder: Path) -> dict[str, Value]:
    """Incremental and bundled storage; with the report's number for the encoder if it is a BERT-base."""
    from weft.bundle.load import load
    from weft.model.accounting.storage import storage as storage_of

    done = storage_of(load(folder))
    counted = done["paper"] or done
    return {name: counted[name]["parameters"] / 1e6 for name in ("incremental", "bundled")}


def applies(name: str, run: RunFile) -> bool:
    """Whether a measure can be taken of a run: of updates, if its method adds any; of choices, if it chooses.

    Args:
        name: the measure.
        run: the run file.
    """
    if name == "similarity":
        return not run.method.separate and len(run.tasks) > 1 and all(part.adds for part in run.method.parts)
    if name == "first_peak":
        return bool(run.training.sampler["use"] == "mt_uncertainty")
    return True


def _log(folder: Path) -> Iterator[dict[str, Any]]:
    """The lines of the run's log."""
    for line in (folder / LOG).read_text(encoding="utf-8").splitlines():
        try:
            event = parse_json(line)
        except json.JSONDecodeError:
            continue  # the last line of a killed run
        if isinstance(event, dict):
            yield event


MEASURES: Mapping[str, Measure] = {
    "data_used": data_used,
    "composition": composition,
    "uncertainty": uncertainty,
    "first_peak": first_peak,
    "difficulty": difficulty,
    "covariance": covariance,
    "similarity": similarity,
    "storage": storage,
}
"""Every measure by its name."""

VALUES: Mapping[str, str] = {
    **{name: name for name in ("data_used", "composition", "uncertainty", "first_peak")},
    **{name: name for name in ("difficulty", "covariance")},
    **{f"{part}_{mean}": "similarity" for part in ("query", "ffn_in_bias") for mean in (*BLOCK_MEANS, PAIRS)},
    **dict.fromkeys(("incremental", "bundled"), "storage"),
}
"""The measure that returns each value."""
EXACT = ("storage", "difficulty")
"""Measures that follow from the settings and the data, and do not vary with the seed."""
