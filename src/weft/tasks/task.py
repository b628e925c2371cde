"""Task: its name, its kind, the source of its texts and labels, and the metrics that judge it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import InitVar, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weft.errors import WeftError, did_you_mean
from weft.tasks.checks import (
    IDENTITY,
    MOST_OUTPUTS,
    NAME,
    OF_FILES,
    OF_HEADS,
    OF_SPLITS,
    OPTIONS,
    RAW,
    SPLITS,
    check_head,
    check_metrics,
    check_options,
    check_range,
    check_splits,
)
from weft.tasks.kinds import KINDS
from weft.tasks.mark import Mark
from weft.tasks.task_data import CUT, as_file, found_labels, rows_by_split
from weft.tasks.task_repr import task_repr

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from weft.data.readers.source import Source
    from weft.tasks.in_memory import RowsInMemory, RowsRecord


__all__ = [
    "ALSO",
    "IDENTITY",
    "OF_FILES",
    "OF_HEADS",
    "OF_SPLITS",
    "SPLITS",
    "SYNTHETIC",
    "Task",
    "check_tasks",
    "task_of",
]

ALSO = ":"
"""The separator between a task and a further evaluation set: "mnli:mm"."""

SYNTHETIC = "swatch"
"""The suite whose rows are generated and not read from files."""


@dataclass(frozen=True, repr=False)
class Task:
    """One task.

    Args:
        name: letters, digits, `_` and `-`; the task's file in a bundle has the same name.
        kind: a registered kind, such as `classify` or `span`.
        labels: the label names in the order of their ids; a file may hold names or ids. By default those
            found in the training rows of `data`, sorted.
        size: the number of outputs; by default the number of labels, and 1 for `regress`.
        range: the range of the labels of `regress` and `similarity`, such as (0, 5). Labels are scaled to 0
            to 1 for training, and answers lie inside the range. Without a range labels are not scaled;
            labels far from 0 are then learned slowly.
        texts: the column of the text, or the two columns of a pair; a template combines several columns into
            one text: `"{question} {answer}"`.
        label: the column of the label; several columns for `regress` and `multilabel` of that size.
        metrics: the metrics that judge the task; the first is its score. Default: those of its kind.
        files: the file of each split, `train`, `validation`, `test` (csv, tsv, jsonl, parquet, conll, …), or
            the rows themselves as dicts.
        hub: the hub id of a data set, `name` or `name/config`, if there are no files.
        suite: the built-in suite that the task belongs to.
        choices: `choose`, `rank`: the columns of the choices, or the one column that holds a list of them.
        marks: `marked`: the two marked spans of text; see `Mark`.
        group: columns whose values define groups of examples that are judged together (`question_em`).
        id: columns that name an example, for submissions.
        drop: labels, as written in the file, whose rows are left out: "-1" if it means "no gold label", None
            for missing labels (null, NaN, an empty cell).
        apart: whether the two texts are encoded separately, with a head that reads both.
        compare: `similarity`: `cosine`, or `head`, a head on [u; v].
        targets: `regress`, `similarity` with a range: `raw` learns labels as they are, not scaled to 0 to 1;
            answers still lie inside the range.
        rank_loss: `rank`: `softmax` or `pairwise`.
        stride: `span`, `tag`: the number of tokens that neighbouring windows of a long text share.
        class_weights: `classify`, `marked`: one weight per label, or `balanced`: n / (C·n_c) over the
            training rows.
        thresholds: `multilabel`: one probability per label above which it is predicted; by default one half.
        tuned_on: the split that the thresholds were tuned on; training drops them again.
        temperature: `classify`, `marked`, `multilabel`, `choose`: divides the logits that probabilities are
            computed from; None: 1. No answer changes, but its probability.
        calibrated_on: the split that the temperature was fitted on; training drops both again.
        pool: what the task's head reads (`pooler`, `cls`, `mean`, `task_pooler`); None: the model's setting.
        layers: the number of layers of the task's head, 1 to 3; None: the model's setting.
        hidden: the width between these layers; None: the model's setting.
        also: further evaluation sets beside a split: {"mm": {"validation": FILE}} gives `accuracy_mm`.
        fraction: the share of the training rows that is used.
        cut: the share of the training rows that becomes the validation split, if there is no validation file.
        halves: whether to halve the validation rows: one half for model selection, the other as test split.
        split_seed: the random seed of `fraction`, `cut` and `halves`.
        encoding: the encoding of the task's text files, such as "cp1252"; None: detected.
        delimiter: the character between the values of its csv and tsv files; None: detected.
        quotes: whether values in its csv and tsv files may be quoted; None: detected.
        data: rows in memory instead of files: {"train": …, "validation": …, "test": …} of data frames (pandas
            or polars), `datasets.Dataset`, `pyarrow.Table` or lists of dicts; a `DatasetDict`; or training
            rows alone, of which a tenth then validates (`cut`). `files` holds them afterwards.

    Example:
        >>> weft.Task("reviews", data={"train": df, "validation": dev}, texts="text", label="sentiment")
        Task('reviews', kind='classify', labels=('bad', 'good'), ...)

    One column or name may be a string: `texts="text"`, `metrics="f1"`.
    """

    name: str
    kind: str = "classify"
    labels: tuple[str, ...] = ()
    size: int | None = None
    range: tuple[float, float] | None = None
    texts: tuple[str, ...] = ("text",)
    label: str | tuple[str, ...] = "label"
    metrics: tuple[str, ...] = ()
    files: Mapping[str, Path | Source | RowsInMemory | RowsRecord | Sequence[Mapping[str, object]]] = field(
        default_factory=dict, compare=False
    )
    hub: str | None = None
    suite: str | None = field(default=None, compare=False)
    choices: tuple[str, ...] = ()
    marks: tuple[Mark, ...] = ()
    group: tuple[str, ...] = ()
    id: tuple[str, ...] = ()
    drop: tuple[str | None, ...] = ()
    apart: bool = False
    compare: str | None = None
    targets: str | None = None
    rank_loss: str | None = None
    stride: int | None = None
    class_weights: str | tuple[float, ...] = ()
    thresholds: tuple[float, ...] = field(default=(), compare=False)
    tuned_on: str | None = field(default=None, compare=False)
    temperature: float | None = field(default=None, compare=False)
    calibrated_on: str | None = field(default=None, compare=False)
    pool: str | None = None
    layers: int | None = None
    hidden: int | None = None
    also: Mapping[str, Mapping[str, Any]] = field(default_factory=dict, compare=False)
    fraction: float = field(default=1.0, compare=False)
    cut: float | None = field(default=None, compare=False)
    halves: bool = field(default=False, compare=False)
    split_seed: int = field(default=1, compare=False)
    encoding: str | None = field(default=None, compare=False)
    delimiter: str | None = field(default=None, compare=False)
    quotes: bool | None = field(default=None, compare=False)
    data: InitVar[Any] = None

    def __post_init__(self, data: Any) -> None:
        value: Any
        for key in ("texts", "metrics", "choices", "group", "id", "drop"):
            value = getattr(self, key)
            if isinstance(value, str):
                self._set(key, (value,))
        for key in ("labels", "texts", "metrics", "choices", "marks", "group", "id", "drop"):
            value = getattr(self, key)
            if isinstance(value, str) or not isinstance(value, Sequence):
                raise WeftError(f"task {self.name!r}: {key}: expected a list; found {value!r}")
        if self.size is not None and (isinstance(self.size, bool) or not isinstance(self.size, int)):
            raise WeftError(f"task {self.name!r}: size: expected a whole number; found {self.size!r}")
        if self.size is not None and self.size > MOST_OUTPUTS:
            raise WeftError(
                f"task {self.name!r}: size: expected at most {MOST_OUTPUTS:,} outputs; found {self.size}"
            )
        if not isinstance(self.name, str) or not NAME.fullmatch(self.name):
            raise WeftError(
                f"task name {self.name!r} cannot be used; "
                "expected at most 100 characters: letters, digits, _ and -"
            )
        kind = KINDS[str(self.kind)]()
        for key in ("labels", "texts", "choices", "group", "id", "drop"):
            items = getattr(self, key)
            self._set(key, tuple(None if item is None and key == "drop" else str(item) for item in items))
        if len(set(self.labels)) < len(self.labels):
            twice = next(label for label, times in Counter(self.labels).items() if times > 1)
            raise WeftError(f"task {self.name!r}: label {twice!r} is listed twice")
        self._set("label", self.label if isinstance(self.label, str) else tuple(self.label))
        self._take_data(data)
        if not self.labels and self.size is None:
            self._set("labels", found_labels(self, kind))
        columns = len(self.label_columns)
        if columns != 1 and self.size not in (None, columns):
            raise WeftError(f"task {self.name!r}: {columns} label columns do not match size {self.size}")
        self._set("size", kind.size(self.name, self.labels, columns if columns != 1 else self.size))
        self._set("labels", kind.label_names(self.labels, self.size or 0))
        check_range(self)
        low, high = kind.texts
        if not low <= len(self.texts) <= high:
            expected = (
                "one text column or two" if (low, high) == (1, 2) else f"{high} text column{'s' * (high > 1)}"
            )
            raise WeftError(f"task {self.name!r}: expected {expected}; found {list(self.texts)}")
        check_options(self)
        check_head(self)
        check_splits(self)
        self._set("also", {name: _as_files(files, f"also[{name!r}]") for name, files in self.also.items()})
        kind.complete(self)
        check_metrics(self, kind)

    def _take_data(self, data: Any) -> None:
        """Set the files: paths, sources and rows in memory."""
        files: Mapping[str, Any] = self.files
        if data is not None:
            if files or self.hub:
                other = "files" if files else "hub"
                raise WeftError(f"task {self.name!r}: found data and {other}; expected one of them")
            files = rows_by_split(data, self.name, SPLITS)
            if "train" in files and "validation" not in files and self.cut is None:
                self._set("cut", CUT)
        for split in files:
            if split not in SPLITS:
                raise WeftError(f"task {self.name!r}: split {split!r}; {did_you_mean(split, SPLITS)}")
        self._set("files", _as_files(files, "files"))

    def __repr__(self) -> str:
        """The settings that are not defaults, in a line or two; rows in memory are shown as a count."""
        return task_repr(self)

    @property
    def scale(self) -> tuple[float, float]:
        """The labels that are learned as 0 and as 1: the range, or (0, 1) without one or with raw targets."""
        return (0.0, 1.0) if self.range is None or self.targets == RAW else self.range

    def target(self, label: Any) -> Any:
        """The training target of a label: (label − low)/(high − low), `scale` being (low, high)."""
        low, high = self.scale
        if (low, high) == (0, 1):
            return label
        if isinstance(label, list | tuple):
            return [(x - low) / (high - low) for x in label]
        return (label - low) / (high - low)

    def in_range(self, outputs: NDArray[np.float32]) -> NDArray[np.float32]:
        """The model's outputs [..., k] as labels: low + x·(high − low), clipped to the range."""
        if self.range is None:
            return outputs
        low, high = self.range
        if self.targets == RAW:
            return outputs.clip(low, high)
        return (low + outputs.clip(0, 1) * (high - low)).astype(outputs.dtype)

    def _set(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)

    def settings(self) -> dict[str, Any]:
        """The task's definition without its data: JSON-serializable, and enough to rebuild the task."""
        options = {key: getattr(self, key) for key in OPTIONS if getattr(self, key) != OPTIONS[key]}
        if self.marks:
            options["marks"] = [mark.settings() for mark in self.marks]
        return {
            "name": self.name,
            "kind": self.kind,
            "labels": list(self.labels),
            "size": self.size,
            "range": None if self.range is None else list(self.range),
            "texts": list(self.texts),
            "label": self.label if isinstance(self.label, str) else list(self.label),
            "metrics": list(self.metrics),
            **{key: list(value) if isinstance(value, tuple) else value for key, value in options.items()},
        }

    @property
    def head(self) -> str:
        """The name of the shape of its head, such as `classify-2`; heads of equal shape are stacked."""
        parts = [self.kind, str(self.size)]
        parts += ["apart"] if self.apart else []
        parts += [self.compare] if self.compare is not None else []
        parts += ["pairwise"] if self.rank_loss == "pairwise" else []
        parts += [f"{self.layers}x{self.hidden or 'd'}"] if (self.layers or 1) > 1 else []
        parts += [self.pool] if self.pool is not None else []
        return "-".join(parts)

    @property
    def label_columns(self) -> tuple[str, ...]:
        """The columns of the label: a single one, or one per output."""
        return (self.label,) if isinstance(self.label, str) else self.label


def _as_files(files: Mapping[str, Any], source: str) -> dict[str, Any]:
    return {split: as_file(file, f"{source}[{split!r}]") for split, file in files.items()}


def check_tasks(tasks: Sequence[Task]) -> tuple[Task, ...]:
    """Return the tasks as a tuple; refuse an empty list and two tasks with the same name."""
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


def task_of(name: str) -> str:
    """Return the task's name in `TASK` or `TASK:SET`."""
    return name.partition(ALSO)[0]
