"""Pictures of which each variant has one: a few are in sight, the others are folded away."""

from __future__ import annotations

from collections.abc import Mapping

from weft.reporting.comparison_data import ComparisonData
from weft.utils.markup import Html, join, tag

FEW = 4
"""How many variants have their picture in sight."""


def first_few(data: ComparisonData, figures: Mapping[str, Html], class_: str = "charts pairs") -> Html:
    """The pictures in the order of the grid: the baseline's and those of the best, and behind them the rest.

    Args:
        data: the comparison.
        figures: the picture of each variant that has one.
        class_: how they are laid out.
    """
    chosen = data.foremost(list(figures), FEW)
    shown = [figure for name, figure in figures.items() if name in chosen]
    rest = [figure for name, figure in figures.items() if name not in chosen]
    inside = tag("div", *shown, class_=class_)
    if not rest:
        return inside
    title = "One more variant" if len(rest) == 1 else f"{len(rest)} more variants"
    return join([inside, tag("details", tag("summary", title), tag("div", *rest, class_=class_))])
