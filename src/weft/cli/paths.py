"""Where a command may write."""

from __future__ import annotations

from pathlib import Path

from weft.errors import WeftError


def check_place(option: str, file: Path | None) -> None:
    """Refuse a place that cannot be written to, before the work is done that would fill it."""
    if file is None:
        return
    if file.is_dir():
        raise WeftError(f"{option} {file}: this is a folder; expected a file's name")
    if not file.parent.is_dir():
        raise WeftError(f"{option} {file}: there is no folder {file.parent}; make it first")


def check_plot(file: Path | None) -> None:
    """The same for a picture, whose name must say in which format it is to be."""
    from weft.analysis.plots.picture import SUFFIXES

    check_place("--plot", file)
    if file is not None and file.suffix.lower() not in SUFFIXES:
        raise WeftError(f"--plot {file}: expected a name that ends in {' or '.join(SUFFIXES)}")
