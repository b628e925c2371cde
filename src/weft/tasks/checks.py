"""What a task may say, and what is refused: its options, its head, its splits."""

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
"""What `grow.start` may be besides the name of a task."""
IDENTITY = ("kind", "labels", "size", "range", "texts", "choices", "marks", "apart", "compare")
"""What two tasks of one name must have in common to be the same task."""
OPTIONS: dict[str, Any] = {
    "choices": (),
    "marks": (),
    "group": (),
    "id": (),
    "drop": (),
    "apart": False,
    "compare": None,
    "rank_loss": None,
    "stride": None,
    "class_weights": (),
    "pool": None,
    "layers": None,
    "hidden": None,
}
"""What most tasks do without, and what it is then."""
OF_KINDS = ("choices", "marks", "apart", "compare", "rank_loss", "stride", "class_weights")
"""Options that some kinds alone have."""
OF_HEADS = ("pool", "layers", "hidden")
"""What a task may say of its own head."""
OF_SPLITS: dict[str, Any] = {"fraction": 1.0, "cut": None, "halves": False, "split_seed": 1}
"""What a task may say of which rows are its splits, and what it is otherwise."""
POOLS = ("pooler", "cls", "mean", "task_pooler")


def check_range(task: Task) -> None:
    """Refuse a range of a kind that has none, or one that is no two numbers in order."""
    if task.range is None:
        return
    if not KINDS[task.kind].has_range:
        raise WeftError(
            f"task {task.name!r}: a range belongs to regress and similarity; its kind is {task.kind!r}"
        )
    given: Any = task.range
    numbers = [x for x in given if type(x) in (int, float)] if isinstance(given, list | tuple) else []
    low, high = map(float, numbers) if len(numbers) == 2 == len(given) else (1.0, 0.0)
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise WeftError(
            f"task {task.name!r}: range: expected two numbers such as [0, 5]; found {task.range!r}"
        )
    task._set("range", (low, high))


def check_options(task: Task) -> None:
    """Refuse what belongs to other kinds, and options of a wrong form."""
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
    weights: Any = task.class_weights
    if weights not in ((), "balanced"):
        fits = isinstance(weights, list | tuple) and len(weights) == task.size
        if not fits or not all(type(x) in (int, float) and 0 < x < math.inf for x in weights):
            raise WeftError(
                f"task {task.name!r}: class_weights: expected 'balanced', or {task.size} numbers above 0,"
                f" one for each of {', '.join(task.labels)}; found {weights!r}"
            )
        task._set("class_weights", tuple(float(x) for x in weights))


def check_head(task: Task) -> None:
    """Refuse what no head has."""
    if task.pool is not None and task.pool not in POOLS:
        raise WeftError(f"task {task.name!r}: pool {task.pool!r}; {did_you_mean(task.pool, POOLS)}")
    if task.layers is not None and (type(task.layers) is not int or not 1 <= task.layers <= 3):
        raise WeftError(f"task {task.name!r}: layers: expected 1, 2 or 3; found {task.layers!r}")
    if task.hidden is not None and (type(task.hidden) is not int or task.hidden < 1):
        raise WeftError(f"task {task.name!r}: hidden: expected a width above 0; found {task.hidden!r}")


def check_metrics(task: Task, kind: Kind) -> None:
    """Give a task the usual metrics of its answers; refuse one that compares something else."""
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
    """Why a metric cannot judge answers of these types."""
    from weft.metrics import ANSWER_TYPES

    if set(metric.compares) & set(answer_types):
        return f"it needs {metric.labels} labels"
    needs = [ANSWER_TYPES[one].needs for one in metric.compares if ANSWER_TYPES[one].needs]
    further = f" ({', '.join(needs)})" if needs else ""
    compares, answers = " or ".join(metric.compares), " or ".join(answer_types)
    return f"it compares {compares}{further}, and the task's answers are {answers}"


def check_splits(task: Task) -> None:
    """Refuse further sets without a name or a split to stand beside, and shares that are none."""
    for further, files in task.also.items():
        if not NAME.fullmatch(str(further)) or not isinstance(files, Mapping) or not files:
            raise WeftError(
                f"task {task.name!r}: also: expected NAME: {{validation: FILE}}, the name of letters, "
                f"digits, _ and -; found {further!r}: {files!r}"
            )
        for split in files:
            if split not in SPLITS[1:]:
                raise WeftError(
                    f"task {task.name!r}: also: {further}: split {split!r}; {did_you_mean(split, SPLITS[1:])}"
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
    """Refuse a task's name that `start` would take for something else."""
    if name in STARTS:
        raise WeftError(
            f"task name {name!r} cannot be given to a new task: as a start it means something else; "
            "give it another"
        )
