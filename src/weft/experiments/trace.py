"""The trace of a run: which tasks it trained on over time, and how certain it was of each.

A record keeps it, because log.jsonl is deleted with the run's folder:

    {"examples": [{"step": 200, "examples": {"cola": 812, "rte": 5588}}, …],
     "entropy": [{"step": 0, "entropy": {"cola": 0.99, "rte": 0.98}}, …]}

`examples` are those of each task since the entry before, so that they add up to those of the whole run.
They come from the lines `step` of the log, which every run has, whatever its sampler is and whether it is
evaluated or not. `entropy` is that of the lines `uncertainty`, if the run measures it. A list has at most
`LONGEST` entries.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from weft.experiments.measures.of_log import events_of

LONGEST = 60
"""The most entries of a list."""
EXAMPLES, ENTROPY = "examples", "entropy"
"""The lists of a trace; an entry has its values under the same name."""

Entry = dict[str, Any]


def trace_of(log: Path) -> dict[str, list[Entry]]:
    """The trace of a run; a list without an entry is left out.

    Args:
        log: its log.jsonl.
    """
    by_step: list[Entry] = []
    by_window: list[Entry] = []
    entropy: list[Entry] = []
    complete = True
    for event in events_of(log):
        kind = event.get("event")
        if kind == "step":
            complete = complete and EXAMPLES in event
            by_step.append(_entry(event["step"], EXAMPLES, event.get(EXAMPLES) or {}))
        elif kind == "uncertainty":
            entropy.append(_entry(event["step"], ENTROPY, event[ENTROPY]))
        if "window" in event:
            by_window.append(_entry(event["step"], EXAMPLES, event["window"][EXAMPLES]))
    # a run that an earlier version began has lines without examples: then the windows of its evaluations
    trace = {EXAMPLES: summed(by_step if complete else by_window), ENTROPY: picked(entropy)}
    return {name: entries for name, entries in trace.items() if entries}


def _entry(step: int, name: str, values: Mapping[str, Any]) -> Entry:
    """An entry without values that are no numbers, which a log has as null."""
    return {"step": step, name: {task: value for task, value in values.items() if value is not None}}


def summed(entries: Sequence[Entry]) -> list[Entry]:
    """At most `LONGEST` entries of examples: neighbors are added up, as evenly as can be.

    Args:
        entries: all of them, ascending.
    """
    thinned = []
    for first, last in _spans(len(entries)):
        counts: dict[str, int] = {}
        for entry in entries[first:last]:
            for task, count in entry[EXAMPLES].items():
                counts[task] = counts.get(task, 0) + count
        thinned.append({"step": entries[last - 1]["step"], EXAMPLES: counts})
    return [entry for entry in thinned if any(entry[EXAMPLES].values())]


def picked(entries: Sequence[Entry]) -> list[Entry]:
    """At most `LONGEST` entries at even distances; the first and the last are among them.

    Args:
        entries: all of them, ascending.
    """
    if len(entries) <= LONGEST:
        return list(entries)
    return [entries[round(place * (len(entries) - 1) / (LONGEST - 1))] for place in range(LONGEST)]


def _spans(count: int) -> list[tuple[int, int]]:
    """At most `LONGEST` spans that cover a number of entries; their lengths differ by one at most."""
    spans = min(count, LONGEST)
    ends = [place * count // spans for place in range(spans + 1)] if spans else [0]
    return list(pairwise(ends))


def problem_of(trace: Mapping[str, Any]) -> str | None:
    """What is wrong with a trace from a file, which may be a stranger's; None: nothing.

    Lists of other names are those of a later version, and are not looked at.
    """
    for name in (EXAMPLES, ENTROPY):
        entries = trace.get(name, [])
        if not isinstance(entries, list) or not all(_is_entry(entry, name) for entry in entries):
            return f"trace.{name} is no list of steps with numbers"
    return None


def _is_entry(entry: Any, name: str) -> bool:
    if not isinstance(entry, dict) or not isinstance(entry.get(name), dict):
        return False
    return _are_numbers([entry.get("step"), *entry[name].values()])


def _are_numbers(values: Iterable[Any]) -> bool:
    return all(
        isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
        for value in values
    )
