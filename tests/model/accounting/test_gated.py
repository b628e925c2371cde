"""The counts of a gated model are those of its compacted one."""

from __future__ import annotations

import pytest

from tests.support.gated import GATED, gated
from weft.experiments.actions.train import parameters_of
from weft.model.accounting.gated import behind_gates


@pytest.mark.parametrize("method", GATED)
def test_counts_are_those_of_the_compacted_model(method):
    model = gated(method)
    removed, small = behind_gates(model), model.compact().ledger()
    assert model.ledger()["total"] - removed.all == small["total"]
    assert model.ledger()["trained"] - removed.trained == small["trained"]
    assert removed.all > 0
    assert behind_gates(model.compact()) == (0, 0)


def test_a_record_counts_what_is_left():
    model = gated("morris", share=0.5)
    counts, small = parameters_of(model), parameters_of(model.compact())
    assert counts["total_ratio"] == small["total_ratio"] < model.ledger()["total_ratio"]
    assert counts["trained"] == small["trained"] < counts["trained_with_gates"]
    assert counts["trained_with_gates"] == model.ledger()["trained"]
    assert "trained_with_gates" not in small
