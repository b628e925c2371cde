"""Examples cut into batches: each is in exactly one, within the budget, at the least cost."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from weft.inference.batches import LONG, by_cost, long_rows

sizes = st.lists(st.tuples(st.integers(1, 128), st.integers(1, 4)), min_size=1, max_size=8)


def examples_of(pairs):
    lengths, counts = (np.array(column) for column in zip(*pairs, strict=True))
    return SimpleNamespace(lengths=lengths, counts=counts)


def cost(batch, examples, overhead):
    batch = np.asarray(batch)
    return overhead + int(examples.counts[batch].sum()) * int(examples.lengths[batch].max())


def least(order, examples, overhead, budget):
    """The least cost by trying every way to cut the sorted examples."""
    if not order:
        return 0.0
    costs = []
    for stop in range(1, len(order) + 1):
        first = cost(order[:stop], examples, overhead)
        if stop > 1 and first - overhead > budget:
            break
        costs.append(first + least(order[stop:], examples, overhead, budget))
    return min(costs)


@given(sizes, st.integers(0, 300), st.integers(1, 600))
def test_no_other_cut_costs_less(pairs, overhead, budget):
    examples = examples_of(pairs)
    cuts = [np.asarray(cut.chosen) for cut in by_cost(examples, overhead, budget)]
    assert sorted(np.concatenate(cuts).tolist()) == list(range(len(pairs)))
    assert all(len(cut) == 1 or cost(cut, examples, 0) <= budget for cut in cuts)
    order = np.argsort(examples.lengths, kind="stable").tolist()
    total = sum(cost(cut, examples, overhead) for cut in cuts)
    assert total == least(order, examples, overhead, budget)


def test_short_and_long_rows_are_kept_apart_if_passes_are_cheap():
    examples = examples_of([(10, 1), (100, 1), (12, 1), (98, 1)])
    assert [sorted(cut.chosen) for cut in by_cost(examples, 20, 1000)] == [[0, 2], [1, 3]]
    assert len(by_cost(examples, 500, 1000)) == 1


@given(st.lists(st.tuples(st.integers(1, 2 * LONG), st.integers(1, 4)), min_size=1), st.integers(1, 9 * LONG))
def test_long_rows_are_those_above_the_limit_if_they_fill_a_batch(pairs, budget):
    are_long = long_rows(examples_of(pairs), budget)
    expected = [tokens > LONG for tokens, _ in pairs]
    if sum(tokens * rows for tokens, rows in pairs if tokens > LONG) < budget:
        assert not are_long.any()
    else:
        assert are_long.tolist() == expected
