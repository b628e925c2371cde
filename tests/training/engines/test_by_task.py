"""Merged gradients in captured steps, uncaptured: one pass per task on its own rows, as in eager steps."""

from __future__ import annotations

import pytest

from tests.support.engines import MERGED, assert_same, go
from tests.support.more import some_of

pytestmark = pytest.mark.usefixtures("token_cache")

KEPT = ("pcgrad", "upgrad", "mean", "scope all", "groups", "nothing shared", "accumulated", "gates")


def losses(log):
    return [line["loss"] for line in log if line["event"] == "step"]


def conflicts(log):
    return [line["conflict"] for line in log if line["event"] == "evaluation"]


def assert_same_logs(expected, log):
    """The same losses, and the same cosines of the tasks' gradients."""
    assert len(losses(log)) == len(losses(expected)) > 0
    for a, b in zip(losses(expected), losses(log), strict=True):
        assert a == pytest.approx(b, rel=1e-4, abs=1e-5)
    assert conflicts(expected)
    for a, b in zip(conflicts(expected), conflicts(log), strict=True):
        assert a["steps"] == b["steps"]
        assert a["cosine"] == pytest.approx(b["cosine"], rel=1e-2, abs=1e-3)


@pytest.mark.parametrize("case", some_of(MERGED, KEPT))
def test_gradients_are_merged_as_by_the_eager_engine(case, every_kind, tmp_path):
    more = [*MERGED[case], "train.evaluate_every=3"]
    eager, expected = go(every_kind, tmp_path / "eager", "eager", *more, dropout=0.0)
    captured, log = go(every_kind, tmp_path / "graph", "graph", *more, dropout=0.0)
    assert (expected[-1]["engine"], log[-1]["engine"]) == ("eager", "graph")
    assert log[-1]["verified"]["shapes"] >= 1
    assert_same_logs(expected, log)
    assert_same(eager, captured)
