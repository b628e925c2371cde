"""A text chart of the expected share of each task over the steps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from weft.sampling.plan.plan import Share

LEVELS = "▁▂▃▄▅▆▇█"
PLAIN = ".:-=+*#@"
"""The same eight levels for a terminal or a file without these characters."""
NEVER = " "
"""The character for a task that is not sampled in these steps."""
COURSE = "share over time"
NAME = 20
"""The longest name that is not truncated."""
NUMBER = 7
"""The width of " 100.0%"; a share below 0.05% is shown as <0.1%."""


def binned(shares: Sequence[Share], bins: int) -> NDArray[np.float64]:
    """The mean share in each of `bins` equal intervals of the steps, [bins, T].

    Args:
        shares: the shares over time, consecutive segments of steps that start at 0.
        bins: at most the number of steps.
    """
    edges = np.linspace(0, shares[-1].stop, bins + 1)
    share = np.stack([segment.share for segment in shares])  # [S, T]
    # ∫ share from 0 to an edge, which is linear between two changes
    changes = np.array([0, *(segment.stop for segment in shares)], np.float64)
    lengths = np.diff(changes)[:, None]
    sums = np.concatenate([np.zeros((1, share.shape[1])), np.cumsum(lengths * share, axis=0)])
    at = np.stack([np.interp(edges, changes, column) for column in sums.T], axis=1)  # [bins + 1, T]
    means: NDArray[np.float64] = np.diff(at, axis=0) / np.diff(edges)[:, None]
    return means


def changing(shares: Sequence[Share]) -> bool:
    """Whether any share changes over the steps."""
    return any(not np.array_equal(segment.share, shares[0].share) for segment in shares)


def chart(shares: Sequence[Share], names: Sequence[str], width: int = 80, plain: bool = False) -> list[str]:
    """Return one line per task.

    If shares change over time, a line has the share at the start, its course with one character per interval,
    and the share at the end. All courses have one square-root scale, so that changes of a small task are
    visible beside a large one. If shares do not change, a line has the share and a bar of that length.

    Args:
        shares: the shares over time.
        names: the tasks, [T].
        width: the maximum width of a line.
        plain: whether to use only ASCII.
    """
    letters = PLAIN if plain else LEVELS
    cut = "~" if plain else "…"
    shown = [name if len(name) <= NAME else f"{name[: NAME - 1]}{cut}" for name in names]
    longest = max(len("task"), *(len(name) for name in shown))
    first, last, steps = shares[0].share, shares[-1].share, shares[-1].stop
    room = max(8, width - longest - NUMBER - 1)
    top = max(float(segment.share.max()) for segment in shares)
    if not changing(shares):
        bars = [_bar(p / top, room - 1, letters) for p in first.tolist()]
        rows = zip(shown, first.tolist(), bars, strict=True)
        return [f"{name:<{longest}}{percent(p)} {bar}" for name, p, bar in rows]
    columns = min(steps, room - NUMBER)
    broad = max(columns, len(COURSE))
    # the largest mean of a column, not of a step: some course must reach the top of the scale
    courses = binned(shares, columns).T  # [T, columns]
    top = float(courses.max())
    lines = [f"{'task':<{longest}}{'start':>{NUMBER}} {COURSE:<{broad}}{'end':>{NUMBER}}"]
    for name, p, course, q in zip(shown, first.tolist(), courses, last.tolist(), strict=True):
        drawn = "".join(_level(value / top, letters) for value in course.tolist())
        lines.append(f"{name:<{longest}}{percent(p)} {drawn:<{broad}}{percent(q)}")
    end = f"step {steps:,}"
    lines.append(f"{'':<{longest + NUMBER}} {0:<{max(columns - len(end), 2)}}{end}")
    bounds = [f"{letters[k]} to {100 * top * ((k + 1) / len(letters)) ** 2:.1f}%" for k in (0, 2, 4, 7)]
    lines.append(f"scale: {', '.join(bounds)}; blank: not sampled")
    return lines


def percent(share: float) -> str:
    """A share in NUMBER characters; a positive share is never shown as zero."""
    text = "<0.1%" if 0 < share < 0.0005 else f"{100 * share:.1f}%"
    return f"{text:>{NUMBER}}"


def _level(height: float, letters: str) -> str:
    """The character of a height from 0 to 1; every positive height has at least the lowest level."""
    if height <= 0:
        return NEVER
    return letters[min(int(height**0.5 * len(letters)), len(letters) - 1)]


def _bar(length: float, room: int, letters: str) -> str:
    """A bar of a length from 0 to 1; a positive length has at least one character."""
    return letters[-1] * max(round(length * room), int(length > 0))
