"""The expected share of each task over the steps, as lines of text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from weft.sampling.plan.plan import Share

LEVELS = "▁▂▃▄▅▆▇█"
PLAIN = ".:-=+*#@"
"""The same eight levels for a terminal or a file that has no such letters."""
NEVER = " "
"""A task that is not drawn in these steps."""
COURSE = "share over time"
NAME = 20
"""The longest name that is not cut."""
NUMBER = 7
"""The room for " 100.0%"; a share below 0.05% is told as <0.1%."""


def binned(shares: Sequence[Share], bins: int) -> NDArray[np.float64]:
    """The mean share in each of `bins` equal stretches of the steps, [bins, T].

    Args:
        shares: the shares over time, stretches of steps that follow each other from 0.
        bins: no more than there are steps.
    """
    edges = np.linspace(0, shares[-1].stop, bins + 1)
    share = np.stack([one.share for one in shares])  # [S, T]
    # ∫ share from 0 to an edge, which is linear between two changes
    changes = np.array([0, *(one.stop for one in shares)], np.float64)
    lengths = np.diff(changes)[:, None]
    sums = np.concatenate([np.zeros((1, share.shape[1])), np.cumsum(lengths * share, axis=0)])
    at = np.stack([np.interp(edges, changes, column) for column in sums.T], axis=1)  # [bins + 1, T]
    found: NDArray[np.float64] = np.diff(at, axis=0) / np.diff(edges)[:, None]
    return found


def changing(shares: Sequence[Share]) -> bool:
    """Whether any share is another at some step than at the first."""
    return any(not np.array_equal(one.share, shares[0].share) for one in shares)


def chart(shares: Sequence[Share], names: Sequence[str], width: int = 80, plain: bool = False) -> list[str]:
    """A row for each task.

    Where shares change with time a row has the share at the start, its course, a letter for some steps each,
    and the share at the end. All courses have one scale, by the square root: what a small task gains can then
    be seen beside a large one. Where shares do not change, a row has the share and a bar of that length.

    Args:
        shares: the shares over time.
        names: the tasks, [T].
        width: the most letters of a line.
        plain: whether to keep to ASCII.
    """
    letters = PLAIN if plain else LEVELS
    cut = "~" if plain else "…"
    shown = [name if len(name) <= NAME else f"{name[: NAME - 1]}{cut}" for name in names]
    longest = max(len("task"), *(len(name) for name in shown))
    first, last, steps = shares[0].share, shares[-1].share, shares[-1].stop
    room = max(8, width - longest - NUMBER - 1)
    top = max(float(one.share.max()) for one in shares)
    if not changing(shares):
        bars = [_bar(p / top, room - 1, letters) for p in first.tolist()]
        rows = zip(shown, first.tolist(), bars, strict=True)
        return [f"{name:<{longest}}{percent(p)} {bar}" for name, p, bar in rows]
    columns = min(steps, room - NUMBER)
    broad = max(columns, len(COURSE))
    # the largest mean of a column, not of a step: a course must reach the top that the scale names
    courses = binned(shares, columns).T  # [T, columns]
    top = float(courses.max())
    lines = [f"{'task':<{longest}}{'start':>{NUMBER}} {COURSE:<{broad}}{'end':>{NUMBER}}"]
    for name, p, course, q in zip(shown, first.tolist(), courses, last.tolist(), strict=True):
        drawn = "".join(_level(value / top, letters) for value in course.tolist())
        lines.append(f"{name:<{longest}}{percent(p)} {drawn:<{broad}}{percent(q)}")
    end = f"step {steps:,}"
    lines.append(f"{'':<{longest + NUMBER}} {0:<{max(columns - len(end), 2)}}{end}")
    bounds = [f"{letters[k]} to {100 * top * ((k + 1) / len(letters)) ** 2:.1f}%" for k in (0, 2, 4, 7)]
    lines.append(f"scale: {', '.join(bounds)}; blank: not drawn")
    return lines


def percent(share: float) -> str:
    """A share in NUMBER letters; one that rounds to nothing is not told as nothing."""
    text = "<0.1%" if 0 < share < 0.0005 else f"{100 * share:.1f}%"
    return f"{text:>{NUMBER}}"


def _level(height: float, letters: str) -> str:
    """The letter of a part of the top, from 0 to 1; the lowest is for all that is not 0."""
    if height <= 0:
        return NEVER
    return letters[min(int(height**0.5 * len(letters)), len(letters) - 1)]


def _bar(length: float, room: int, letters: str) -> str:
    """A bar of a length from 0 to 1; it has a letter wherever the length is not 0."""
    return letters[-1] * max(round(length * room), int(length > 0))
