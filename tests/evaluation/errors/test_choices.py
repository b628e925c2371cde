"""Errors of choices: counts by position and by number of choices."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.answered import labelled
from weft.evaluation.errors.choices import ChoiceErrors
from weft.tasks import Task
from weft.tasks.kinds.decisions import Decisions

TASK = Task("c", "choose", choices=("a",))


@st.composite
def decisions(draw):
    sizes = draw(st.lists(st.integers(2, 5), min_size=1, max_size=12))
    scores = [np.array(draw(st.lists(st.floats(-5, 5), min_size=n, max_size=n))) for n in sizes]
    rights = [sorted(draw(st.sets(st.integers(0, n - 1), min_size=1, max_size=2))) for n in sizes]
    return scores, rights


@given(decisions())
def test_counts_add_up(drawn):
    scores, rights = drawn
    found = Decisions.of_candidates(scores, rights)
    count = len(scores)
    errors = ChoiceErrors(labelled(TASK, [1.0] * count, found.is_right.astype(float), found))
    right = [int(x.argmax()) in ids for x, ids in zip(scores, rights, strict=True)]
    assert [not kinds for kinds in errors.errors()] == right
    positions, sizes = errors.tables()
    assert sum(row[1] for row in positions.rows) == sum(map(len, rights))
    assert sum(row[2] for row in positions.rows) == count
    assert sum(row[3] for row in positions.rows) == sum(right)
    assert sum(row[1] for row in sizes.rows) == count
    assert sum(row[1] * row[2] for row in sizes.rows) == pytest.approx(sum(right))
    chance = sum(len(ids) / len(x) for x, ids in zip(scores, rights, strict=True))
    assert sum(row[1] * row[3] for row in sizes.rows) == pytest.approx(chance)
    assert [errors.gold(i) for i in range(count)] == rights
    assert [errors.predicted(i) for i in range(count)] == [int(x.argmax()) for x in scores]
