"""Errors of rankings, in agreement with mrr and p_at_1."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.answered import labelled
from weft.evaluation.errors.rankings import FIRST_IRRELEVANT, NOTHING_RELEVANT, RankingErrors
from weft.metrics import METRICS
from weft.tasks import Task

TASK = Task("r", "rank", choices=("a",))
QUERIES = st.lists(
    st.lists(st.tuples(st.integers(0, 2), st.integers(-3, 3)), min_size=1, max_size=14),
    min_size=1,
    max_size=8,
)


@given(QUERIES)
def test_wrong_queries_are_those_whose_first_candidate_is_irrelevant(queries):
    gold = [[float(r) for r, _ in query] for query in queries]
    scores = [[float(s) for _, s in query] for query in queries]
    errors = RankingErrors(labelled(TASK, gold, scores))
    right = sum(not kinds for kinds in errors.errors())
    assert right == round(len(queries) * METRICS["p_at_1"](gold, scores, None))
    (table,) = errors.tables()
    assert sum(row[1] for row in table.rows) == len(queries)
    assert table.rows[0][1] == right
    ranks = [rank for rank in errors._ranks if rank is not None]
    assert sum(1 / r for r in ranks) / len(queries) == pytest.approx(METRICS["mrr"](gold, scores, None))
    severity = errors.severity()
    for number, kinds in enumerate(errors.errors()):
        if kinds == [FIRST_IRRELEVANT]:
            assert severity[number] >= 0  # an irrelevant candidate is at least as high
        elif kinds == [NOTHING_RELEVANT]:
            assert not any(gold[number])


def test_by_hand():
    errors = RankingErrors(labelled(TASK, [[1, 0, 0], [0, 1], [0, 0]], [[3, 5, 1], [0, 9], [1, 2]]))
    assert errors.errors() == [[FIRST_IRRELEVANT], [], [NOTHING_RELEVANT]]
    assert errors.severity().tolist() == [2, -9, 0]
    assert [row[:2] for row in errors.tables()[0].rows if row[1]] == [
        ("1", 1),
        ("2", 1),
        (NOTHING_RELEVANT, 1),
    ]
    assert (errors.gold(0), errors.predicted(0)) == ([1, 0, 0], [3, 5, 1])
    assert np.isfinite(errors.severity()).all()
