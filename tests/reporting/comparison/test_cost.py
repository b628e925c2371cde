"""Score against cost: when expensive variants take most of an axis."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.support.outline import Outline
from tests.support.report_grid import large_comparison
from weft.reporting.comparison.cost import cost_section, unsqueezed
from weft.reporting.comparison_data import read_comparison
from weft.reporting.pictures.scatter import Point


def names(ratios, log):
    return "".join(p.name for p in unsqueezed([Point(n, x, 1.0) for n, x in ratios.items()], log))


@pytest.mark.parametrize("log", [True, False])
def test_points_left_of_a_large_gap_are_drawn_again(log):
    assert names({"a": 1.02, "b": 1.0, "c": 1.03, "d": 8.0}, log) == "abc"
    assert names({"a": 1.02, "b": 1.0, "c": 1.03, "d": 8.0, "e": 8.1}, log) == "abc"


def test_points_without_a_gap_are_drawn_once():
    assert names({"a": 1.0, "b": 10.0, "c": 100.0, "d": 1000.0}, True) == ""
    assert names({"a": 1.0, "b": 2.0, "c": 3.0, "d": 4.0}, False) == ""


def test_too_few_points_left_of_the_gap_are_no_picture():
    assert names({"a": 1.0, "b": 1.02, "d": 8.0}, True) == ""
    assert names({"a": 1.0, "b": 1.0, "c": 1.0, "d": 8.0}, True) == ""  # one place
    assert names({"a": 0.0, "b": 9.0, "c": 9.1, "d": 9.2}, False) == ""  # the gap is left of them


def test_the_second_picture_names_what_it_is_without(tmp_path):
    data = read_comparison(large_comparison(tmp_path, variants=4, tasks=2, seeds=1))
    ratios = dict(zip(data.names, (1.02, 1.0, 8.0, 1.03), strict=True))
    variants = {name: {**of, "total_ratio": ratios[name]} for name, of in data.variants.items()}
    changed = replace(data, results={**data.results, "variants": variants})
    found = Outline(cost_section(changed, "cost").body)
    caption = "megabytes to serve all tasks, without variant 2"
    assert found.inside("figcaption")[-2:] == ["megabytes to serve all tasks", caption]
    assert any("the others are drawn again" in text for text in found.inside("p"))
    assert not any(
        "without" in text for text in Outline(cost_section(data, "cost").body).inside("figcaption")
    )
