"""Writing a figure as SVG or PNG; equal figures give a byte-identical SVG."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from weft.errors import WeftError
from weft.utils.files import write_output
from weft.utils.markup import spelled
from weft.utils.terminal import escaped

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SUFFIXES = (".svg", ".png")
LONGEST_LABEL = 24
INCH = 72  # points


def write_figure(draw: Callable[[], Figure], file: Path, title: str) -> None:
    """Draw a figure and write it.

    Args:
        draw: makes the figure; called with matplotlib's default settings.
        file: its suffix, .svg or .png, is the format.
        title: the title in the metadata of the file.
    """
    check_suffix(file)
    import matplotlib
    from matplotlib.text import Text

    form = file.suffix.lower()[1:]
    metadata: dict[str, str | None] = {"Title": plain(title)}
    if form == "svg":
        metadata |= {"Date": None, "Creator": "weft"}
    drawn = io.BytesIO()
    with matplotlib.rc_context():
        matplotlib.rcdefaults()  # a user's style must not change the figure
        # text stays text, which can be searched; ids are hashes with this salt instead of random
        matplotlib.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "weft"})
        # a dollar in a name is no formula
        matplotlib.rcParams["text.parse_math"] = False
        figure = draw()
        for text in figure.findobj(Text):
            text.set_text(plain(text.get_text()))
        figure.savefig(drawn, format=form, dpi=150, metadata=metadata)
    write_output(file, drawn.getvalue())


def plain(text: str) -> str:
    """A text for a picture: control characters, and what XML forbids, are spelled out."""
    return spelled(escaped(text))


def check_suffix(file: Path) -> None:
    """Raise an error if the suffix of the file is not one of the two formats."""
    if file.suffix.lower() not in SUFFIXES:
        raise WeftError(f"{file}: the suffix {file.suffix!r} is not known; expected {' or '.join(SUFFIXES)}")


def short(name: str) -> str:
    """A name, shortened for an axis label."""
    name = plain(name)
    return name if len(name) <= LONGEST_LABEL else f"{name[: LONGEST_LABEL - 1]}…"
