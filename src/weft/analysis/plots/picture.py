"""Writing a figure to an SVG or a PNG; equal drawings give an SVG of equal bytes."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from weft.errors import WeftError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SUFFIXES = (".svg", ".png")
LONGEST_LABEL = 24
INCH = 72  # points


def write_figure(draw: Callable[[], Figure], file: Path, title: str) -> None:
    """Draw a figure and write it.

    Args:
        draw: makes the figure; called with matplotlib's own defaults in force.
        file: its suffix, .svg or .png, says what is written.
        title: of the file, for programs that show it.
    """
    check_suffix(file)
    import matplotlib

    form = file.suffix.lower()[1:]
    told: dict[str, str | None] = {"Title": title}
    if form == "svg":
        told |= {"Date": None, "Creator": "weft"}
    drawn = io.BytesIO()
    with matplotlib.rc_context():
        matplotlib.rcdefaults()  # a user's own style must not change what is fixed here
        # letters stay letters, which can be searched; ids are hashes with this salt and not random
        matplotlib.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "weft"})
        draw().savefig(drawn, format=form, dpi=150, metadata=told)
    file.write_bytes(drawn.getvalue())  # at once: a drawing that fails leaves no half file


def check_suffix(file: Path) -> None:
    """An error if the file's name does not say which of the two formats it is to have."""
    if file.suffix.lower() not in SUFFIXES:
        raise WeftError(f"{file}: the suffix {file.suffix!r} is not known; expected {' or '.join(SUFFIXES)}")


def short(name: str) -> str:
    """A name as it stands beside an axis."""
    return name if len(name) <= LONGEST_LABEL else f"{name[: LONGEST_LABEL - 1]}…"
