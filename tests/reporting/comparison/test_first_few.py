"""Pictures of which a few are in sight."""

from __future__ import annotations

import pytest

from tests.support.outline import Outline
from tests.support.report_grid import large_comparison
from weft.reporting.comparison.first_few import FEW, first_few
from weft.reporting.comparison_data import read_comparison
from weft.utils.markup import tag


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return read_comparison(large_comparison(tmp_path_factory.mktemp("grid"), variants=7, tasks=2, seeds=1))


def shown(data, names):
    return [text for _, text in Outline(first_few(data, {name: tag("p", name) for name in names})).texts]


def test_few_pictures_are_all_in_sight(data):
    assert shown(data, data.names[1 : 1 + FEW]) == data.names[1 : 1 + FEW]


def test_of_many_the_baseline_and_the_best_are_in_the_order_of_the_grid(data):
    best = sorted(data.names[1:], key=data.mean, reverse=True)[: FEW - 1]
    rest = [name for name in data.names[1:] if name not in best]
    first = [name for name in data.names if name not in rest]
    assert shown(data, data.names) == [*first, "3 more variants", *rest]
    assert first[0] == "variant 0"
