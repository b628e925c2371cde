"""Checks of the paths that a command is to write, made before the work starts."""

from __future__ import annotations

from pathlib import Path

from weft.errors import WeftError

HAND_DRAWN = (".svg", ".html")
"""The formats of pictures that `weft.reporting` draws."""


def check_place(option: str, file: Path | None) -> None:
    """Refuse a file path that cannot be written.

    Args:
        option: the option that names it, for the message.
        file: the path; None is accepted.
    """
    if file is None:
        return
    if file.is_dir():
        raise WeftError(f"{option} {file}: this is a folder; expected the name of a file")
    if not file.parent.is_dir():
        raise WeftError(
            f"{option} {file}: there is no folder {file.parent}; create it first: mkdir -p {file.parent}"
        )


def check_plot(file: Path | None) -> None:
    """Refuse a path for `--plot` that cannot be written or whose suffix names no image format."""
    from weft.analysis.plots.picture import SUFFIXES

    check_place("--plot", file)
    if file is not None and file.suffix.lower() not in SUFFIXES:
        raise WeftError(f"--plot {file}: expected a name that ends in {' or '.join(SUFFIXES)}")


def check_hand_drawn(file: Path | None) -> None:
    """Refuse a path for `--plot` of a picture that is written as SVG, or as a page around it."""
    check_place("--plot", file)
    if file is not None and file.suffix.lower() not in HAND_DRAWN:
        raise WeftError(f"--plot {file}: expected a name that ends in {' or '.join(HAND_DRAWN)}")


def is_run_file(source: str) -> bool:
    """Return whether an argument names a run file or a preset, and not the folder of a run or a bundle."""
    from weft.config.presets import preset_names

    path = Path(source)
    return not path.is_dir() and (
        path.is_file() or path.suffix in (".yaml", ".yml") or source in preset_names()
    )
