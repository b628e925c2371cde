"""Pictures: they parse, have a title and a description, and show what they are given, whatever its names."""

from __future__ import annotations

import math
from itertools import pairwise
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.outline import HOSTILE
from weft.reporting.pictures.bars import Bar, bars, forest
from weft.reporting.pictures.frame import Box, color_class, dashes
from weft.reporting.pictures.heat_map import GAP, ROW, STRONGEST, heat_map, two_decimals
from weft.reporting.pictures.lines import Line, line_chart, pieces
from weft.reporting.pictures.panels import panels
from weft.reporting.pictures.scatter import Point, pareto, scatter, some_of
from weft.reporting.pictures.stacked import WIDE, stacked

SVG = "{http://www.w3.org/2000/svg}"
NAMES = {"key": "k", "title": "What it shows", "description": "In words."}


def parsed(picture):
    tree = ElementTree.fromstring(picture)
    assert tree.get("role") == "img"
    assert tree.find(f"{SVG}title").text == "What it shows"
    assert tree.find(f"{SVG}desc").text == "In words."
    assert tree.get("aria-labelledby") == "k-title k-desc"
    assert "nan" not in picture
    return tree


def of_class(tree, kind, name):
    return [e for e in tree.iter(f"{SVG}{kind}") if name in (e.get("class") or "").split()]


def numbers(path):
    """The points of a path."""
    return [tuple(map(float, pair.split(","))) for pair in path.strip("MZ").split("L")]


FINITE = st.floats(-1e6, 1e6)
CURVES = st.lists(st.tuples(FINITE, FINITE, FINITE), min_size=2, max_size=20)


@given(st.lists(CURVES, min_size=1, max_size=5))
def test_lines_and_bands_stay_inside_the_plot(curves):
    lines = []
    for number, curve in enumerate(curves):
        rows = [sorted(row) for row in curve]
        low, middle, high = zip(*rows, strict=True)
        lines.append(Line(f"l{number}", range(len(rows)), middle, low, high, number=number))
    tree = parsed(line_chart(lines, **NAMES))
    box = Box()
    drawn = [*of_class(tree, "path", "line"), *of_class(tree, "path", "band")]
    assert len(drawn) == 2 * len(lines)
    for path in drawn:
        for x, y in numbers(path.get("d")):
            assert box.x[0] - 0.1 <= x <= box.x[1] + 0.1
            assert box.y[1] - 0.1 <= y <= box.y[0] + 0.1


def test_a_larger_value_is_higher_and_a_later_step_is_right():
    tree = parsed(line_chart([Line("a", [0, 10, 20], [1.0, 3.0, 2.0])], **NAMES))
    (path,) = of_class(tree, "path", "line")
    (x0, y0), (x1, y1), (x2, y2) = numbers(path.get("d"))
    assert x0 < x1 < x2
    assert y1 < y2 < y0


def test_ticks_at_steps_are_whole_numbers():
    tree = parsed(line_chart([Line("a", [50, 60], [1, 2])], y_name="score", **NAMES))
    ticks = [t for t in of_class(tree, "text", "tick") if t.get("text-anchor") != "end"]
    assert [t.text for t in ticks] == ["50", "55", "60"] or [t.text for t in ticks] == ["50", "55"]


def test_a_value_that_is_not_finite_interrupts_a_line():
    assert pieces([1, 2, 3, 4], [1.0, math.nan, 2.0, 3.0]) == [[(1, 1.0)], [(3, 2.0), (4, 3.0)]]
    tree = parsed(line_chart([Line("a", [1, 2, 3, 4], [1.0, math.nan, 2.0, 3.0])], **NAMES))
    assert len(of_class(tree, "circle", "dot")) == 1
    assert len(of_class(tree, "path", "line")) == 1


def test_the_kept_step_is_marked_and_named():
    tree = parsed(line_chart([Line("a", [1, 2], [1.0, 2.0], marked=2)], **NAMES))
    (ring,) = of_class(tree, "circle", "kept")
    assert ring.find(f"{SVG}title").text == "a: step 2 was kept"


def test_series_that_are_not_shown_are_below_the_others():
    lines = [Line("a", [0, 1], [0, 1]), Line("b", [0, 1], [1, 0], number=1, shown=False)]
    tree = parsed(line_chart(lines, **NAMES))
    series = of_class(tree, "g", "series")
    assert [g.get("data-column") for g in series] == ["2", "1"]
    assert "off" in series[0].get("class").split()


def test_32_series_differ_without_names():
    assert len({(color_class(n), dashes(n)) for n in range(32)}) == 32


POINTS = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=1, max_size=12)


@given(POINTS)
def test_the_pareto_front_is_what_no_other_point_is_better_than(pairs):
    points = [Point(str(n), float(x), float(y)) for n, (x, y) in enumerate(pairs)]
    front = pareto(points)
    better = lambda p, q: p.x <= q.x and p.y >= q.y and (p.x, p.y) != (q.x, q.y)  # noqa: E731
    places = {(p.x, p.y) for p in points if not any(better(q, p) for q in points)}
    assert {(p.x, p.y) for p in front} == places
    assert len(front) == len(places)


@given(st.lists(st.integers(), max_size=30), st.integers(2, 8))
def test_some_points_of_many(items, count):
    chosen = some_of(items, count)
    assert len(chosen) == min(len(items), count)
    if items:
        assert (chosen[0], chosen[-1]) == (items[0], items[-1])


def test_scatter_rings_the_front_and_draws_intervals():
    points = [Point("cheap", 1, 50, 45, 55), Point("dear", 100, 40), Point("best", 1000, 60)]
    tree = parsed(scatter(points, x_name="cost", y_name="score", log=True, **NAMES))
    titles = {c.find(f"{SVG}title").text.split(":")[0] for c in of_class(tree, "circle", "front")}
    assert titles == {"cheap", "best"}
    assert len(of_class(tree, "line", "whisker")) == 1
    assert [t.text for t in of_class(tree, "text", "label")] == ["best", "cheap", "dear"]  # from the top


def test_points_without_cost_stand_left_on_a_logarithmic_axis():
    points = [Point("frozen", 0, 50), Point("small", 10, 60), Point("large", 1000, 70)]
    tree = parsed(scatter(points, x_name="parameters", y_name="score", log=True, **NAMES))
    xs = [float(c.get("cx")) for c in of_class(tree, "circle", "dot")]
    assert xs == sorted(xs)
    assert len(set(xs)) == 3


def test_intervals_have_a_mark_by_verdict():
    rows = [
        Bar("up", 1, 0.5, 1.5, verdict="better"),
        Bar("?", 0, -1, 1),
        Bar("down", -1, -2, -0.5, verdict="worse"),
    ]
    tree = parsed(forest(rows, x_name="points", **NAMES))
    up, down = (numbers(p.get("points").replace(" ", "L")) for p in of_class(tree, "polygon", "dot"))
    assert up[2][1] < up[0][1]  # the tip is above
    assert down[2][1] > down[0][1]
    assert len(of_class(tree, "circle", "dot")) == 1
    assert up[2][0] > down[2][0]


def test_bars_are_as_long_as_their_values_and_absent_ones_have_a_text():
    rows = [Bar("a", 10, text="10"), Bar("b", 20, text="20"), Bar("c", None, text="never")]
    tree = parsed(bars(rows, x_name="steps", **NAMES))
    a, b = (float(r.get("width")) for r in of_class(tree, "rect", "bar"))
    assert b == pytest.approx(2 * a, abs=0.2)
    assert "never" in [t.text for t in of_class(tree, "text", "label")]


def test_heat_maps_shade_by_size_and_sign():
    matrix = [[math.nan, 1.0], [-0.5, 0.0]]
    tree = parsed(heat_map(["a", "b"], ["c", "d"], matrix, **NAMES))
    cells = of_class(tree, "rect", "cell")
    assert [c.get("class") for c in cells] == ["cell unknown", "cell above", "cell below", "cell above"]
    assert [float(c.get("fill-opacity")) for c in cells] == [0, STRONGEST, STRONGEST / 2, 0]
    assert cells[1].find(f"{SVG}title").text == "a, d: 1.00"
    assert [two_decimals(x) for x in (-0.001, -0.5)] == ["0.00", "−0.50"]


def test_heat_maps_leave_room_between_blocks_and_out_what_is_with_itself():
    names = ["a", "b", "c"]
    matrix = [[math.nan if a == b else 0.5 for b in names] for a in names]
    tree = parsed(heat_map(names, names, matrix, blocks=(2, 1), **NAMES))
    cells = of_class(tree, "rect", "cell")
    assert [c.find(f"{SVG}title").text[:4] for c in cells] == ["a, b", "a, c", "b, a", "b, c", "c, a", "c, b"]
    a_b, a_c = (float(c.get("x")) for c in cells[:2])
    assert a_c - a_b == pytest.approx(float(cells[0].get("width")) + GAP, abs=0.2)
    rows = [float(c.get("transform").split()[1][:-1]) for c in tree.findall(f"{SVG}g[@transform]")]
    assert [low - high for high, low in pairwise(rows)] == pytest.approx([ROW, ROW + GAP], abs=0.2)


@given(st.lists(st.lists(st.floats(0.01, 1), min_size=3, max_size=3), min_size=2, max_size=6))
def test_stacked_areas_fill_the_whole_height(rows):
    shares = [[value / sum(row) for value in row] for row in rows]
    tree = parsed(stacked(["a", "b", "c"], range(len(rows)), shares, **NAMES))
    areas = [numbers(p.get("d")) for p in of_class(tree, "path", "area")]
    count = len(rows)
    box = WIDE
    assert all(y == pytest.approx(box.y[0], abs=0.11) for _, y in areas[0][count:])
    assert all(y == pytest.approx(box.y[1], abs=0.11) for _, y in areas[2][:count])
    assert areas[1][count:] == list(reversed(areas[0][:count]))  # each stands on the one below


@pytest.mark.parametrize("name", HOSTILE)
def test_names_do_nothing_in_any_picture(name):
    pictures = [
        line_chart([Line(name, [0, 1], [0, 1], marked=1)], **NAMES, x_name=name, y_name=name),
        scatter([Point(name, 1, 1), Point("b", 2, 2)], x_name=name, y_name=name, **NAMES),
        bars([Bar(name, 1, text=name)], x_name=name, **NAMES),
        forest([Bar(name, 1, 0, 2, text=name)], x_name=name, **NAMES),
        heat_map([name], [name], [[0.5]], x_name=name, y_name=name, **NAMES),
        stacked([name], [0, 1], [[1.0], [1.0]], **NAMES),
    ]
    for picture in pictures:
        check_harmless(parsed(picture))
    whole = panels("all", name, name, [(name, pictures[0])], Box(), [name], [pictures[1]])
    check_harmless(ElementTree.fromstring(whole))


def check_harmless(tree):
    known = {"svg", "title", "desc", "g", "line", "text", "path", "circle", "rect", "polygon", "style"}
    for element in tree.iter():
        assert element.tag.removeprefix(SVG) in known
        assert not [key for key in element.attrib if key.startswith("on")]
        assert element.get("href") is None


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), min_size=1, max_size=12))
def test_names_of_points_touch_neither_marks_nor_names(places):
    points = [Point(f"variant {i}", 10 + x, 50 + y) for i, (x, y) in enumerate(places)]
    tree = parsed(scatter(points, x_name="x", y_name="y", **NAMES))
    taken = []
    for mark in of_class(tree, "circle", "dot"):
        x, y = float(mark.get("cx")), float(mark.get("cy"))
        taken.append((x - 5, y - 5, x + 5, y + 5))
    for label in of_class(tree, "text", "label"):
        x, y, width = float(label.get("x")), float(label.get("y")), 6 * len(label.text)
        left = x - width if label.get("text-anchor") == "end" else x
        area = (left, y - 10, left + width, y + 2)
        assert left >= 0
        assert left + width <= 420
        for other in taken:
            apart = area[2] <= other[0] or other[2] <= area[0]
            assert apart or area[3] <= other[1] + 0.1 or other[3] <= area[1] + 0.1
        taken.append(area)
