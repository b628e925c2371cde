"""The table of results: one row of counts per area, and the failures of one cause together."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

from tests.fuzz.case import RIGHT, WRONG
from tests.fuzz.runner import Result

COLUMNS = ("cases", *RIGHT, *WRONG)
TITLES = (
    *("area", "cases", "accepted", "refused", "tracebacks", "crashes", "hangs", "memory", "codes"),
    *("output", "changed"),
)


def counts(results: Iterable[Result]) -> dict[str, Counter[str]]:
    """Count the verdicts of each area; `cases` is the number of all."""
    table: dict[str, Counter[str]] = defaultdict(Counter)
    for result in results:
        table[result.area].update((result.kind, "cases"))
    return dict(table)


def table_of(results: Sequence[Result]) -> str:
    """Return the table with a row of sums."""
    by_area = counts(results)
    rows = [[area, *(str(by_area[area][column]) for column in COLUMNS)] for area in by_area]
    sums = sum(by_area.values(), Counter())
    rows.append(["all", *(str(sums[column]) for column in COLUMNS)])
    widths = [max(len(row[n]) for row in (TITLES, *rows)) for n in range(len(TITLES))]
    lines = [
        "  ".join(
            cell.ljust(width) if n == 0 else cell.rjust(width)
            for n, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in ([*TITLES], *rows)
    ]
    return "\n".join(lines)


def failures_of(results: Iterable[Result]) -> str:
    """Return the failures, those of one kind and cause together, with the first case of each."""
    groups: dict[tuple[str, str, str], list[Result]] = defaultdict(list)
    for result in results:
        if not result.right:
            groups[result.area, result.kind, _cause(result)].append(result)
    lines = []
    for (area, kind, _), group in sorted(groups.items(), key=lambda entry: (entry[0][:2], -len(entry[1]))):
        first = min(group, key=lambda result: result.number)
        lines.append(f"{len(group)} × {area}, {kind}: {first.detail}")
        lines.append(f"    case {first.number}: {first.command}")
    return "\n".join(lines)


def _cause(result: Result) -> str:
    """What tells one failure from another: the exception and the first words of its message."""
    words = "".join(" " if c.isdigit() else c for c in result.detail).split()
    return " ".join(words[:4])
