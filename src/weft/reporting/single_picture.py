"""One picture by command: an SVG file, or a page with the picture and its numbers.

An SVG file has its style inside, follows the theme of the program that shows it, and holds no script.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from weft.reporting.covariance_scatter import TaskPoint, covariance_scatter
from weft.reporting.curve_sets import CurveSet
from weft.reporting.page import Section, figure, legend, page
from weft.reporting.pictures.frame import Box, legend_key
from weft.reporting.pictures.panels import panels
from weft.reporting.pictures.scatter import mark_key
from weft.reporting.pictures.stacked import WIDE
from weft.reporting.run.sampling import Composition, composition_picture, composition_table
from weft.utils.files import write_output
from weft.utils.markup import Html, join, tag
from weft.utils.version import __version__


def write_curves(curves: CurveSet, file: Path, title: str) -> None:
    """Write the learning curves of some series: one chart per task.

    Args:
        curves: the curves.
        file: its suffix, .svg or .html, is the format.
        title: the title.
    """
    if _is_page(file):
        body = join([curves.switches(), tag("div", *curves.figures("curves"), class_="charts")])
        _write_page(file, title, body)
        return
    charts = [(curves.title(task), curves.chart(task, f"chart-{n}")) for n, task in enumerate(curves.curves)]
    text = "; ".join(f"{curves.title(task)}: {curves.describe(task)}" for task in curves.curves)
    # a picture has no switches: its legend names what is in color
    names = [name for name in curves.names if name in curves.shown]
    samples = [legend_key(curves.looks[name]) for name in names]
    write_output(file, panels("curves", title, text, charts, Box(), names, samples))


def write_composition(composition: Composition, file: Path, title: str) -> None:
    """Write what a run was trained on over time.

    Args:
        composition: the shares of tasks.
        file: its suffix, .svg or .html, is the format.
        title: the title.
    """
    picture, text = composition_picture(composition, "composition-0")
    places = list(reversed(range(len(composition.tasks))))
    names = [composition.tasks[place] for place in places]
    if _is_page(file):
        table = composition_table(composition).html(hide_caption=True)
        key_of = legend(names, places, filled=True)
        shown = figure("share of each task", picture, table, "wide fill", [text], key_of)
        _write_page(file, title, shown)
        return
    samples = [legend_key(place, filled=True) for place in places]
    write_output(file, panels("composition", title, text, [("", picture)], WIDE, names, samples))


def write_covariance(points: Sequence[TaskPoint], file: Path, against: str) -> None:
    """Write the scatter of covariance similarity and the change of scores.

    Args:
        points: the tasks.
        file: its suffix, .svg or .html, is the format.
        against: what scores are compared with.
    """
    title = "Covariance similarity and change of scores"
    picture, text, table = covariance_scatter(points, "covariance-0", against)
    models = list(dict.fromkeys(point.model for point in points))
    if _is_page(file):
        shown = figure(title, join([legend(models, dots=True), picture]), table, "fill narrow", [text])
        _write_page(file, title, shown)
        return
    samples = [mark_key(number) for number in range(len(models))]
    write_output(file, panels("covariance", title, text, [("", picture)], Box(height=300), models, samples))


def _is_page(file: Path) -> bool:
    return file.suffix.lower() == ".html"


def _write_page(file: Path, title: str, body: Html) -> None:
    section = Section("picture", title, body)
    write_output(file, page(title, [], [section], f"weft {__version__}"))
