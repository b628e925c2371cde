"""What the records of a comparison say of the time between evaluations: examples and entropy by step.

Record files come from strangers: entries that are not in the form that a run writes are left out.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from math import fsum
from statistics import fmean

from weft.experiments.records import Record
from weft.reporting.curves import Curve, curve_of
from weft.reporting.run_data import numbers_of

WINDOWS = 40
"""The most points of a line; the entries of a window are joined. The size of a page depends on it."""
LAST = 10**12
"""The largest step of a run."""
LARGEST = {"examples": 1e12, "entropy": 1.01}
"""The fields of a trace, and the largest number that a run writes there; entropies may be rounded."""

Entries = Mapping[int, Mapping[str, float]]
"""A number of each task, by step."""


def entries_of(record: Record, field: str) -> dict[int, dict[str, float]]:
    """The entries of a record's trace by step, ascending.

    Args:
        record: the record.
        field: one of `LARGEST`.
    """
    most = LARGEST[field]
    listed = record.trace.get(field)
    entries: dict[int, dict[str, float]] = {}
    for entry in listed if isinstance(listed, list) else ():
        step = entry.get("step") if isinstance(entry, dict) else None
        if not isinstance(step, int) or isinstance(step, bool) or not 0 <= step <= LAST:
            continue
        numbers = {t: x for t, x in numbers_of(entry.get(field)).items() if 0 <= x <= most}
        if numbers:
            entries[step] = numbers
    return dict(sorted(entries.items()))


def ends_of(seeds: Iterable[Entries], most: int = WINDOWS) -> list[int]:
    """The last step of each window: of every entry, or of every few if there are many.

    The first window may be shorter than the others, and not the last one, whose point would be worth less.

    Example:
        >>> ends_of([{10: {}, 20: {}, 30: {}}, {20: {}, 40: {}, 50: {}}], most=3)
        [10, 30, 50]
    """
    steps = sorted({step for entries in seeds for step in entries})
    width = max(1, -(-len(steps) // most))
    return steps[::-width][::-1]


def share_curves(seeds: Sequence[Entries]) -> dict[str, Curve]:
    """The share of each task among the examples of each window, from 0 to 1: mean and range over seeds.

    Args:
        seeds: the counts of examples of each seed.
    """
    ends = ends_of(seeds)
    counted = [_joined(entries, ends) for entries in seeds]
    points: dict[str, list[dict[int, float]]] = {task: [] for task in _tasks(seeds)}
    for windows in counted:
        totals = {end: fsum(count for of in rows.values() for count in of) for end, rows in windows.items()}
        for task, of_seed in points.items():
            of_seed.append(
                {end: fsum(rows.get(task, ())) / totals[end] for end, rows in windows.items() if totals[end]}
            )
    return _curves(points)


def mean_curves(seeds: Sequence[Entries]) -> dict[str, Curve]:
    """The mean value of each task in each window: mean and range over seeds.

    Args:
        seeds: the values of each seed.
    """
    ends = ends_of(seeds)
    joined = [_joined(entries, ends) for entries in seeds]
    return _curves(
        {
            task: [
                {end: fmean(rows[task]) for end, rows in windows.items() if task in rows}
                for windows in joined
            ]
            for task in _tasks(seeds)
        }
    )


def _joined(entries: Entries, ends: Sequence[int]) -> dict[int, dict[str, list[float]]]:
    """The numbers of each task in each window."""
    windows: dict[int, dict[str, list[float]]] = {}
    for step, numbers in entries.items():
        rows = windows.setdefault(ends[bisect_left(ends, step)], {})
        for task, value in numbers.items():
            rows.setdefault(task, []).append(value)
    return windows


def _tasks(seeds: Iterable[Entries]) -> list[str]:
    return list(dict.fromkeys(task for entries in seeds for numbers in entries.values() for task in numbers))


def _curves(points: Mapping[str, Sequence[Mapping[int, float]]]) -> dict[str, Curve]:
    curves = {task: curve_of(of_seeds, fmean) for task, of_seeds in points.items()}
    return {task: curve for task, curve in curves.items() if curve.steps}
