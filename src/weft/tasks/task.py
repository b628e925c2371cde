"""A task: its name, its kind, where its texts and labels are, and how its answers are judged."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weft.errors import WeftError, did_you_mean
from weft.tasks.kinds import KINDS

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}")
SPLITS = ("train", "validation", "test")
IDENTITY = ("kind", "labels", "size", "range", "texts")
"""What two tasks of one name must have in common to be the same task."""


@dataclass(frozen=True)
class Task:
    """One task.

    Args:
        name: letters, digits, `_` and `-`: it names the task's file too.
        kind: a registered kind, such as `classify` or `regress`.
        labels: the label names in the order of their ids (`classify`); a file may hold names or ids.
        size: the number of outputs; by default the number of labels, and 1 for `regress`.
        range: of the labels of `regress`, such as (0, 5): they are learnt as 0 to 1, and answers lie inside.
            Without it they are learnt as they are, which is slow if they are far from 0.
        texts: the column of the text, or the two columns of a pair.
        label: the column of the label; several for `regress` of that size.
        metrics: the metrics that judge it; the first is its score. By default those of its kind.
        files: the file of each split, `train`, `validation`, `test` (csv, tsv, jsonl, parquet), or the rows
            themselves as dicts.
        hub: a data set's hub id, `name` or `name/config`, where there are no files.
        suite: the built-in suite that its rows are made by, where there are no files.
    """

    name: str
    kind: str = "classify"
    labels: tuple[str, ...] = ()
    size: int | None = None
    range: tuple[float, float] | None = None
    texts: tuple[str, ...] = ("text",)
    label: str | tuple[str, ...] = "label"
    metrics: tuple[str, ...] = ()
    files: Mapping[str, Path | Sequence[Mapping[str, object]]] = field(default_factory=dict, compare=False)
    hub: str | None = None
    suite: str | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        value: Any
        for key, value in (("labels", self.labels), ("texts", self.texts), ("metrics", self.metrics)):
            if isinstance(value, str) or not isinstance(value, Sequence):
                raise WeftError(f"task {self.name!r}: {key}: expected a list; found {value!r}")
        if self.size is not None and (isinstance(self.size, bool) or not isinstance(self.size, int)):
            raise WeftError(f"task {self.name!r}: size: expected a whole number; found {self.size!r}")
        if not isinstance(self.name, str) or not _NAME.fullmatch(self.name):
            raise WeftError(
                f"task name {self.name!r} cannot be used; expected letters, digits, _ and -, 100 at the most"
            )
        kind = KINDS[str(self.kind)]()
        self._set("labels", tuple(str(label) for label in self.labels))
        if len(set(self.labels)) < len(self.labels):
            twice = next(x for x in self.labels if self.labels.count(x) > 1)
            raise WeftError(f"task {self.name!r}: label {twice!r} is given twice")
        self._set("label", self.label if isinstance(self.label, str) else tuple(self.label))
        columns = len(self.label_columns)
        if columns != 1 and self.size not in (None, columns):
            raise WeftError(f"task {self.name!r}: {columns} label columns do not fit size {self.size}")
        self._set("size", kind.size(self.name, self.labels, columns if columns != 1 else self.size))
        self._set("labels", kind.label_names(self.labels, self.size or 0))
        self._check_range()
        self._set("texts", tuple(self.texts))
        if not 1 <= len(self.texts) <= 2:
            raise WeftError(f"task {self.name!r}: expected one text column or two; found {list(self.texts)}")
        self._set("metrics", tuple(self.metrics) or kind.metrics)
        for metric in self.metrics:
            known = kind.metrics_for(self.size or 0)
            if metric not in known:
                raise WeftError(
                    f"task {self.name!r}: metric {metric!r} does not fit {self.head}; "
                    f"{did_you_mean(metric, known)}"
                )
        given: Mapping[str, Any] = self.files
        self._set("files", {s: Path(f) if isinstance(f, str) else f for s, f in given.items()})
        for split in self.files:
            if split not in SPLITS:
                raise WeftError(f"task {self.name!r}: split {split!r}; {did_you_mean(split, SPLITS)}")

    def _check_range(self) -> None:
        if self.range is None:
            return
        if not KINDS[self.kind].has_range:
            raise WeftError(f"task {self.name!r}: a range belongs to regress; its kind is {self.kind!r}")
        given: Any = self.range
        numbers = [x for x in given if type(x) in (int, float)] if isinstance(given, list | tuple) else []
        low, high = map(float, numbers) if len(numbers) == 2 == len(given) else (1.0, 0.0)
        if not (math.isfinite(low) and math.isfinite(high) and low < high):
            raise WeftError(
                f"task {self.name!r}: range: expected two numbers such as [0, 5]; found {self.range!r}"
            )
        self._set("range", (low, high))

    def target(self, label: Any) -> Any:
        """What the model learns for a label: (label − low)/(high − low) where there is a range."""
        if self.range is None:
            return label
        low, high = self.range
        if isinstance(label, list | tuple):
            return [(x - low) / (high - low) for x in label]
        return (label - low) / (high - low)

    def in_range(self, outputs: NDArray[np.float32]) -> NDArray[np.float32]:
        """The model's outputs [..., k] as labels: low + x·(high − low), kept inside the range."""
        if self.range is None:
            return outputs
        low, high = self.range
        return (low + outputs.clip(0, 1) * (high - low)).astype(outputs.dtype)

    def _set(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)

    def settings(self) -> dict[str, Any]:
        """What the task is, without its data: JSON-able, and enough to build it again."""
        return {
            "name": self.name,
            "kind": self.kind,
            "labels": list(self.labels),
            "size": self.size,
            "range": None if self.range is None else list(self.range),
            "texts": list(self.texts),
            "label": self.label if isinstance(self.label, str) else list(self.label),
            "metrics": list(self.metrics),
        }

    @property
    def head(self) -> str:
        """The name of its head's shape, such as `classify-2`: tasks with equal shapes are stacked."""
        return f"{self.kind}-{self.size}"

    @property
    def label_columns(self) -> tuple[str, ...]:
        """The columns of the label: one, or one for each output of `regress`."""
        return (self.label,) if isinstance(self.label, str) else self.label


def check_tasks(tasks: Sequence[Task]) -> tuple[Task, ...]:
    """The tasks as a tuple; none at all, or two of one name, is an error."""
    if isinstance(tasks, Task):
        raise WeftError("tasks: expected a list of tasks; found one task")
    tasks = tuple(tasks)
    if not tasks:
        raise WeftError("no tasks; expected at least one weft.Task")
    for task in tasks:
        if not isinstance(task, Task):
            raise WeftError(f"expected a weft.Task; found {task!r}")
    names = [task.name for task in tasks]
    for name in names:
        if names.count(name) > 1:
            raise WeftError(f"two tasks are named {name!r}")
    return tasks
