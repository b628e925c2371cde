"""The labels of a task: their names, how often each occurs, and rows without a usable label."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from weft.data.drafting.column import key_of
from weft.tasks.values import is_missing, number_of, whole

NO_GOLD = "-1"
"""The label that often means that a row has none."""
RARE = 0.05
"""Up to this share of the rows, −1 means that there is no label."""


@dataclass(frozen=True)
class Labels:
    """The labels of a task.

    Attributes:
        counts: split → label → how often it occurs.
        missing: split → the number of rows without a label.
        null: split → the number of those that are null, and not an empty text.
        complete: whether all rows were read, and not a sample.
    """

    counts: Mapping[str, Counter[str]]
    missing: Mapping[str, int]
    null: Mapping[str, int]
    complete: bool

    @property
    def names(self) -> list[str]:
        """All labels, sorted: numbers by their value, O before B-X and I-X."""
        return sort_labels({name for counts in self.counts.values() for name in counts})


def count_labels(
    columns: Mapping[str, Sequence[object]], complete: bool, kind: str, separator: str = ""
) -> Labels:
    """Count the labels of each split.

    Args:
        columns: the label values of each split.
        complete: whether these are all rows.
        kind: the task's kind; `multilabel` and `tag` have several labels per row.
        separator: what separates the labels in a text.
    """
    counts = {
        split: Counter(name for value in values for name in _names(value, kind, separator))
        for split, values in columns.items()
    }
    missing = {split: sum(map(is_missing, values)) for split, values in columns.items()}
    null = {split: sum(value is None for value in values) for split, values in columns.items()}
    return Labels(counts, missing, null, complete)


def _names(value: object, kind: str, separator: str) -> Iterator[str]:
    if is_missing(value):
        return
    if kind not in ("multilabel", "tag"):
        yield label_name(value)
        return
    if isinstance(value, str):
        value = value.split(separator) if separator else value.split()
    for item in value if isinstance(value, list | tuple) else [value]:
        if not is_missing(item):
            yield label_name(item).strip() if separator else label_name(item)


def label_name(value: object) -> str:
    """Return a label as the run file names it: 1.0 is `1`, true is `true`; a text stays as it is."""
    if isinstance(value, bool):
        return str(value).lower()
    number = None if isinstance(value, str) else whole(value)
    return key_of(value) if number is None else str(number)


def sort_labels(names: set[str]) -> list[str]:
    """Sort labels: numbers by value, tags by type with O first and B- before I-, other texts by letters."""
    if all(number_of(name) is not None for name in names):
        return sorted(names, key=lambda name: (float(name), name))
    if "O" in names and all(name == "O" or name[1:2] in ("-", "_") for name in names):
        return sorted(names, key=lambda name: (name != "O", name[2:], name[:1]))
    return sorted(names)


def no_gold(labels: Labels) -> int:
    """Return how many labelled rows have −1 in the sense of "no gold label"; 0 if −1 is a label like others.

    It is if it is frequent, or if there are further negative numbers.
    """
    counts: Counter[str] = sum((c for split, c in labels.counts.items() if split != "test"), Counter())
    minus = counts.get(NO_GOLD, 0)
    others = [whole(name) for name in counts if name != NO_GOLD]
    if not minus or len(others) < 2 or any(other is None or other < 0 for other in others):
        return 0
    return minus if minus <= RARE * sum(counts.values()) else 0


def balance(counts: Counter[str], most: int = 6) -> str:
    """Return the shares of the labels, the most frequent first: `neg 52 %, pos 48 %`."""
    total = sum(counts.values())
    ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    parts = [f"{_short(name)} {_percent(count / total)}" for name, count in ranked[:most]]
    if (rest := len(ranked) - most) > 0:
        parts.append(f"{rest} more, the rarest {_percent(ranked[-1][1] / total)}")
    return ", ".join(parts)


def _percent(share: float) -> str:
    return f"{share:.1%}".replace("%", " %") if share < 0.01 else f"{share:.0%}".replace("%", " %")


def _short(name: str) -> str:
    text = name if name == name.strip() and name else repr(name)
    return text if len(text) <= 30 else f"{text[:30]}…"


def near_duplicates(names: Sequence[str]) -> list[tuple[str, ...]]:
    """Return the labels that differ only in capitals or in white space around them."""
    groups: dict[str, list[str]] = {}
    for name in names:
        groups.setdefault(name.strip().lower(), []).append(name)
    return [tuple(group) for group in groups.values() if len(group) > 1]
