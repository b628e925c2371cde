"""The keys of a task that follow from its labels: labels, range, drop, and suggestions."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from weft.data.drafting.labels import NO_GOLD, Labels, balance, count_labels, near_duplicates, no_gold
from weft.data.drafting.parts import Parts
from weft.errors import WeftError
from weft.tasks.values import is_missing, number_of, whole

RARE = 0.1
"""If the rarest label has less than this share of an even one, class weights are suggested."""


@dataclass
class LabelSettings:
    """Keys of a task with their comments.

    Attributes:
        settings: the keys.
        comments: what is written beside them.
        about: what is written above the task.
        suggestions: keys that are written as comments.
        notes: what a user should know.
        sample_labels: the labels of the sample, if only a sample was read.
        summary: a few words for a table: `2: neg 52 %, pos 48 %`.
    """

    settings: dict[str, Any] = field(default_factory=dict)
    comments: dict[str, str] = field(default_factory=dict)
    about: list[str] = field(default_factory=list)
    suggestions: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    sample_labels: list[str] = field(default_factory=list)
    summary: str = ""


def named_labels(
    task: str, parts: Parts, label: str, kind: str, separator: str = "", drop: tuple[str, ...] = ()
) -> LabelSettings:
    """Return the keys of a kind with named labels, such as `classify`; a test file with others is left out.

    Args:
        task: the task's name.
        parts: its splits.
        label: its label column.
        kind: its kind.
        separator: `multilabel`: what separates the labels of a row.
        drop: labels that are left out.
    """
    found = LabelSettings()
    labels = _counted(parts, label, kind, separator)
    stored = parts.splits["train"].sample.label_names.get(label)
    if kind == "classify" and no_gold(labels) and not stored:
        drop = (*drop, NO_GOLD)
        found.comments["drop"] = f"{no_gold(labels):,} rows with the label -1: no gold label"
    known = {name for split, counts in labels.counts.items() if split != "test" for name in counts} - {*drop}
    test = labels.counts.get("test", Counter())
    if unknown := [name for name in test if name not in known and name not in drop]:
        if not any(name in known for name in test):
            if any(name != NO_GOLD for name in unknown):
                shown = ", ".join(map(repr, unknown[:3]))
                parts.without("test", f"its labels ({shown}) are not those of the training file")
            labels = _counted(parts, label, kind, separator, skip=("test",))
        else:
            found.notes.append(f"{len(unknown)} labels are only in the test file: {', '.join(unknown[:5])}")
    names = [name for name in labels.names if name not in drop]
    if stored is not None and all((i := whole(name)) is not None and 0 <= i < len(stored) for name in names):
        found.comments["labels"] = "the names are stored in the file"
        names, shown_names = list(stored), dict(enumerate(stored))
    else:
        shown_names = {}
    if len(names) < 2:
        sample = parts.splits["train"].sample
        raise WeftError(
            f"task {task!r}: {sample.path}, column {label!r}: found {len(names)} label"
            f"{'s' * (len(names) != 1)} {names}; expected two or more; name another column: --label COLUMN"
        )
    counts = labels.counts["train"]
    for name in drop:
        counts.pop(name, None)
    if shown_names:
        counts = type(counts)({shown_names[int(name)]: n for name, n in counts.items()})
    of = "" if labels.complete else f", in the first {parts.splits['train'].sample.rows:,} rows"
    unit = "tags" if kind == "tag" else "labels"
    found.about.append(f"{len(names)} {unit}{of}: {balance(counts)}")
    found.summary = f"{len(names)}: {balance(counts, 3)}"
    if labels.complete or shown_names:
        found.settings["labels"] = names
        if not shown_names and [whole(name) for name in names] == list(range(len(names))):
            found.comments["labels"] = "numbers in the file; their names may stand here, that of 0 first"
    else:
        found.sample_labels = names
        found.suggestions.append(
            f"labels: {_flow(names)}  # those in the sample; without the key, all labels of the training file"
        )
    for group in near_duplicates(names):
        found.notes.append(
            f"the labels {' and '.join(map(repr, group))} differ only in capitals or spaces; to join them: "
            f"options: {{values: {{{label}: {{{_flow(group[1])}: {_flow(group[0])}}}}}}} beside the file"
        )
    for split, other in labels.counts.items():
        if split == "validation" and (only := [name for name in other if name not in labels.counts["train"]]):
            only = [name for name in only if name not in drop]
            if only:
                found.notes.append(
                    f"{', '.join(map(repr, only[:5]))}: in the validation file, not in training"
                )
    rarest = min((counts.get(name, 0) for name in names), default=0)
    if kind == "classify" and rarest < RARE * sum(counts.values()) / len(names):
        found.suggestions.append("class_weights: balanced  # the labels are far from evenly distributed")
        found.suggestions.append(
            "metrics: [macro_f1, accuracy]  # counts rare labels as much as frequent ones"
        )
    _drop(found, labels, kind, drop)
    return found


def numeric_label(parts: Parts, columns: tuple[str, ...], drop: tuple[str, ...] = ()) -> LabelSettings:
    """Return the keys of `regress` or `similarity`: the range of the labels of all splits."""
    found = LabelSettings()
    numbers: list[float] = []
    complete = True
    missing = 0
    for split, part in parts.splits.items():
        values, whole_file = part.values(columns)
        cells = [cell for column in values.values() for cell in column]
        if split == "test" and all(is_missing(cell) or number_of(cell) == -1 for cell in cells):
            continue  # a test file without labels
        complete &= whole_file
        missing += sum(map(is_missing, cells))
        numbers += [
            n for cell in cells if str(cell).strip() not in drop and (n := number_of(cell)) is not None
        ]
    low, high = outer_range(min(numbers), max(numbers))
    mean = sum(numbers) / len(numbers)
    of = "" if complete else f", in the first {parts.splits['train'].sample.rows:,} rows"
    found.about.append(f"labels from {min(numbers):g} to {max(numbers):g}, mean {mean:.3g}{of}")
    found.summary = f"{min(numbers):g} to {max(numbers):g}"
    if complete:
        found.settings["range"] = [low, high]
        found.comments["range"] = "labels are scaled by it for training, and predictions lie inside it"
    else:
        found.suggestions.append(
            f"range: [{low:g}, {high:g}]  # that of the sample; all labels must be inside"
        )
    drop_list: list[Any] = [*drop, *([None] if missing else [])]
    if drop_list:
        found.settings["drop"] = drop_list
        found.comments["drop"] = "rows without a number are left out"
    return found


def outer_range(low: float, high: float) -> tuple[float, float]:
    """Return round numbers around a range: (0, 5) of 0.2 to 4.8.

    Example:
        >>> outer_range(0.2, 4.8), outer_range(0.012, 0.034), outer_range(3, 3)
        ((0, 5), (0.01, 0.04), (3, 4))
    """
    if low == high:
        return (int(low), int(low) + 1) if low == int(low) else (math.floor(low), math.ceil(low))
    step = 1.0 if high - low > 0.3 else 10.0 ** math.floor(math.log10(high - low))
    below, above = math.floor(low / step) * step, math.ceil(high / step) * step
    digits = max(0, -math.floor(math.log10(step)))
    below, above = round(below, digits), round(above, digits)
    # rounding must not leave a label outside
    below, above = min(below, low), max(above, high)
    return (
        (int(below), int(above))
        if step == 1 and below == int(below) and above == int(above)
        else (below, above)
    )


def _counted(parts: Parts, label: str, kind: str, separator: str, skip: tuple[str, ...] = ()) -> Labels:
    columns: dict[str, list[object]] = {}
    complete = True
    for split, part in parts.splits.items():
        values, whole_file = part.values([label])
        if label in values and split not in skip:
            columns[split] = values[label]
            complete &= whole_file
    labels = count_labels(columns, complete, kind, separator)
    # a test file without any label is no problem: it is read without labels
    if "test" in labels.counts and set(labels.counts["test"]) <= {NO_GOLD}:
        return count_labels({s: v for s, v in columns.items() if s != "test"}, complete, kind, separator)
    return labels


def _drop(found: LabelSettings, labels: Labels, kind: str, drop: tuple[str, ...]) -> None:
    """Add the key `drop`: rows without a label, unless an empty text means none of several labels."""
    absent: Mapping[str, int] = labels.null if kind == "multilabel" else labels.missing
    rows = sum(absent.values())
    if not rows and not drop:
        return
    found.settings["drop"] = [*drop, *([None] if rows else [])]
    if rows:
        remarks = f"{rows:,} rows without a label are left out"
        found.comments["drop"] = "; ".join(filter(None, (found.comments.get("drop"), remarks)))
        found.about.append(remarks)


def _flow(value: object) -> str:
    # JSON is YAML, and always one line
    return json.dumps(value, ensure_ascii=False)
