"""Checks of a task's settings: its options, head, metrics and splits."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from weft.errors import WeftError, did_you_mean
from weft.tasks.kinds import KINDS
from weft.tasks.mark import as_mark

if TYPE_CHECKING:
    from weft.metrics import Metric
    from weft.tasks.kinds.kind import Kind
    from weft.tasks.task import Task

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}")
SPLITS = ("train", "validation", "test")
STARTS = ("auto", "average", "random", "xavier")
"""The values of `grow.start` besides the name of a task."""
IDENTITY = ("kind", "labels", "size", "range", "texts", "choices", "marks", "apart", "compare", "targets")
"""The settings in which two tasks of one name must agree to be the same task."""
OPTIONS: dict[str, Any] = {
    "choices": (),
    "marks": (),
    "group": (),
    "id": (),
    "drop": (),
    "apart": False,
    "compare": None,
    "targets": None,
    "rank_loss": None,
    "stride": None,
    "class_weights": (),
    "thresholds": (),
    "tuned_on": None,
    "temperature": None,
    "calibrated_on": None,
    "pool": None,
    "layers": None,
    "hidden": None,
}
"""Optional settings and their defaults."""
OF_KINDS = (
    *("choices", "marks", "apart", "compare", "targets", "rank_loss", "stride"),
    *("class_weights", "thresholds", "tuned_on", "temperature", "calibrated_on"),
)
"""Options that only some kinds have."""
OF_HEADS = ("pool", "layers", "hidden")
"""The settings of a task's head."""
OF_FILES = ("encoding", "delimiter", "quotes")
"""The settings that say how a task's text files are read; None: detected."""
OF_SPLITS: dict[str, Any] = {"fraction": 1.0, "cut": None, "halves": False, "split_seed": 1}
"""The settings that select the rows of a task's splits, and their defaults."""
MOST_OUTPUTS = 1_000_000
"""The most outputs of a task."""
WIDEST = 65_536
"""The largest width between the layers of a head."""
TEMPERATURES = (0.001, 1000.0)
"""The smallest and the largest temperature of a task."""
RAW = "raw"
"""The value of `targets` with which labels are not scaled by the range."""
POOLS = ("pooler", "cls", "mean", "task_pooler")


def check_range(task: Task) -> None:
    """Refuse a range for a kind without ranges, or one that is not two ascending numbers."""
    if task.range is None:
        return
    if not KINDS[task.kind].has_range:
        raise WeftError(
            f"task {task.name!r}: a range belongs to regress and similarity; its kind is {task.kind!r}"
        )
    value: Any = task.range
    numbers = [x for x in value if type(x) in (int, float)] if isinstance(value, list | tuple) else []
    low, high = map(float, numbers) if len(numbers) == 2 == len(value) else (1.0, 0.0)
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise WeftError(
            f"task {task.name!r}: range: expected two numbers such as [0, 5]; found {task.range!r}"
        )
    task._set("range", (low, high))


def check_options(task: Task) -> None:
    """Refuse options that belong to other kinds, and options with invalid values."""
    for key in OF_KINDS:
        if getattr(task, key) != OPTIONS[key] and key not in KINDS[task.kind].options:
            having = ", ".join(name for name in KINDS if key in KINDS[name].options)
            raise WeftError(f"task {task.name!r}: {key} belongs to {having}; its kind is {task.kind!r}")
    task._set("marks", tuple(as_mark(task.name, mark, len(task.texts)) for mark in task.marks))
    if not isinstance(task.apart, bool):
        raise WeftError(f"task {task.name!r}: apart: expected true or false; found {task.apart!r}")
    if task.apart and len(task.texts) != 2:
        raise WeftError(f"task {task.name!r}: apart needs two texts; found {list(task.texts)}")
    if task.stride is not None and (type(task.stride) is not int or task.stride < 0):
        raise WeftError(
            f"task {task.name!r}: stride: expected a number of tokens, 0 or more; found {task.stride!r}"
        )
    if task.targets not in (None, RAW):
        raise WeftError(
            f"task {task.name!r}: targets: expected {RAW} (labels are learned as they are) or null (scaled "
            f"to 0 to 1 by the range); found {task.targets!r}"
        )
    weights: Any = task.class_weights
    if weights not in ((), "balanced"):
        fits = isinstance(weights, list | tuple) and len(weights) == task.size
        if not fits or not all(type(x) in (int, float) and 0 < x < math.inf for x in weights):
            raise WeftError(
                f"task {task.name!r}: class_weights: expected 'balanced', or {task.size} numbers above 0,"
                f" one for each of {', '.join(task.labels)}; found {weights!r}"
            )
        task._set("class_weights", tuple(float(x) for x in weights))
    _check_thresholds(task)
    _check_temperature(task)


def _check_thresholds(task: Task) -> None:
    values: Any = task.thresholds
    if values != ():
        fits = isinstance(values, list | tuple) and len(values) == task.size
        if not fits or not all(type(x) in (int, float) and 0 <= x <= 1 for x in values):
            raise WeftError(
                f"task {task.name!r}: thresholds: expected {task.size} numbers from 0 to 1, one for each of "
                f"{', '.join(task.labels)}; found {values!r}"
            )
        task._set("thresholds", tuple(float(x) for x in values))
    if task.tuned_on is not None and (task.tuned_on not in SPLITS or not task.thresholds):
        raise WeftError(
            f"task {task.name!r}: tuned_on: expected the split that its thresholds were tuned on "
            f"({', '.join(SPLITS)}); found {task.tuned_on!r}"
        )


def _check_temperature(task: Task) -> None:
    value: Any = task.temperature
    if value is not None:
        low, high = TEMPERATURES
        if type(value) not in (int, float) or not low <= value <= high:
            raise WeftError(
                f"task {task.name!r}: temperature: expected a number from {low:g} to {high:g}, by which "
                f"logits are divided; found {value!r}"
            )
        task._set("temperature", float(value))
    if task.calibrated_on is not None and (task.calibrated_on not in SPLITS or value is None):
        raise WeftError(
            f"task {task.name!r}: calibrated_on: expected the split that its temperature was fitted on "
            f"({', '.join(SPLITS)}); found {task.calibrated_on!r}"
        )


def check_head(task: Task) -> None:
    """Refuse invalid settings of the head."""
    if task.pool is not None and task.pool not in POOLS:
        raise WeftError(f"task {task.name!r}: pool {task.pool!r}; {did_you_mean(task.pool, POOLS)}")
    if task.layers is not None and (type(task.layers) is not int or not 1 <= task.layers <= 3):
        raise WeftError(f"task {task.name!r}: layers: expected 1, 2 or 3; found {task.layers!r}")
    if task.hidden is not None and (type(task.hidden) is not int or not 0 < task.hidden <= WIDEST):
        raise WeftError(
            f"task {task.name!r}: hidden: expected a width above 0, at most {WIDEST:,}; found {task.hidden!r}"
        )


def check_metrics(task: Task, kind: Kind) -> None:
    """Set the default metrics of a task that names none; refuse metrics that do not fit its answers."""
    from weft.metrics import ANSWER_TYPES, METRICS, fitting

    types = kind.answer_types_of(task)
    task._set("metrics", tuple(task.metrics) or ANSWER_TYPES[types[0]].metrics)
    size = task.size or 0
    for name in task.metrics:
        if name not in METRICS:
            hint = did_you_mean(str(name), fitting(types, size))
            raise WeftError(f"task {task.name!r}: metric {name!r} does not exist; {hint}")
        if not METRICS[name].fits(types, size):
            why, hint = _why(METRICS[name], types), did_you_mean(name, fitting(types, size))
            raise WeftError(f"task {task.name!r}: metric {name!r} does not fit {task.head}: {why}; {hint}")
        if METRICS[name].needs_groups and not task.group:
            raise WeftError(
                f"task {task.name!r}: metric {name!r} needs 'group', the columns that name a question"
            )


def _why(metric: Metric, answer_types: Sequence[str]) -> str:
    """The reason why a metric cannot judge answers of these types."""
    from weft.metrics import ANSWER_TYPES

    if set(metric.compares) & set(answer_types):
        return f"it needs {metric.labels} labels"
    needs = [ANSWER_TYPES[name].needs for name in metric.compares if ANSWER_TYPES[name].needs]
    further = f" ({', '.join(needs)})" if needs else ""
    compares, answers = " or ".join(metric.compares), " or ".join(answer_types)
    return f"it compares {compares}{further}, and the task's answers are {answers}"


def check_splits(task: Task) -> None:
    """Refuse invalid further evaluation sets (`also`), shares (`fraction`, `cut`) and keys of files."""
    for key, kind, expected in (
        ("encoding", str, "a name such as utf-8 or cp1252"),
        ("delimiter", str, "a character such as ';'"),
        ("quotes", bool, "true or false"),
    ):
        value = getattr(task, key)
        if value is not None and not isinstance(value, kind):
            raise WeftError(f"task {task.name!r}: {key}: expected {expected}; found {value!r}")
    for set_name, files in task.also.items():
        if not NAME.fullmatch(str(set_name)) or not isinstance(files, Mapping) or not files:
            raise WeftError(
                f"task {task.name!r}: also: expected NAME: {{validation: FILE}}, where NAME has letters, "
                f"digits, _ and -; found {set_name!r}: {files!r}"
            )
        for split in files:
            if split not in SPLITS[1:]:
                raise WeftError(
                    f"task {task.name!r}: also: {set_name}: split {split!r}; "
                    f"{did_you_mean(split, SPLITS[1:])}"
                )
    for key in ("fraction", "cut"):
        value = getattr(task, key)
        if value is None and key == "cut":
            continue
        high = 1 if key == "fraction" else 0.999
        if type(value) not in (int, float) or not 0 < value <= high:
            most = "at most 1" if key == "fraction" else "below 1"
            raise WeftError(f"task {task.name!r}: {key}: expected a share above 0, {most}; found {value!r}")


def check_new_name(name: str) -> None:
    """Refuse a name for a new task that `grow.start` would read as something else."""
    if name in STARTS:
        raise WeftError(
            f"task name {name!r} cannot be used for a new task: it has another meaning as a value of "
            f"grow.start ({', '.join(STARTS)}); choose a different name"
        )
