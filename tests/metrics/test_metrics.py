"""What holds of every metric."""

from __future__ import annotations

import pytest

from tests.support.paths import ROOT
from weft.metrics import LOWER_IS_BETTER, METRICS, score

DOCS = ROOT / "docs"


def test_every_metric_is_defined_in_the_documentation():
    text = (DOCS / "measures.md").read_text(encoding="utf-8").split("## The papers' averages")[0]
    for name in METRICS:
        assert f"`{name}`" in text, name


@pytest.mark.parametrize("name", METRICS)
def test_nothing_to_judge_is_no_nan(name):
    assert score([name], [], []) == {name: 0.0}


def test_errors_are_metrics():
    assert set(LOWER_IS_BETTER) <= set(METRICS)
