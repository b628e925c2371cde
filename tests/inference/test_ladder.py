"""The ladder of padded shapes: every example in one batch, little padding, few shapes."""

from __future__ import annotations

from itertools import pairwise, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.inference.batches import LONG, TOKENS
from weft.inference.examples import Examples
from weft.inference.ladder import FEW, ROWS, Ladder, by_ladder, cheapest, in_two_ways, to_capture


class Lengths:
    """Tokens of examples of which only their sizes are known."""

    def __init__(self, lengths, counts):
        import numpy as np

        self.lengths, self.row_counts = np.array(lengths), np.array(counts)
        self.one_row_each = all(count == 1 for count in counts)


@given(tokens=st.integers(1, 2000), limit=st.sampled_from([None, 512, 2000, 2001]))
def test_a_length_holds_the_row_and_wastes_little(tokens, limit):
    if limit is not None:
        tokens = min(tokens, limit)
    padded = Ladder(limit).length(tokens)
    assert tokens <= padded <= (limit or 10_000)
    assert padded == limit or padded <= max(16, tokens + 7, tokens * 1.25)
    assert Ladder(limit).length(padded) == padded


@given(count=st.integers(1, 5000), length=st.sampled_from([16, 24, 64, 128, 512, 20_000]))
def test_rows_are_padded_to_few_numbers(count, length):
    ladder = Ladder()
    full = ladder.full(length)
    padded = ladder.rows(count, length)
    assert padded >= count
    assert padded in (*ROWS, full) or (padded == count > full)
    assert full * length <= ladder.budget or full == 1
    assert ladder.rows(count, length, many=True) >= count


def test_the_ladder_is_small():
    ladder = Ladder(512)
    lengths = ladder.lengths(128)
    assert lengths == [16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128]
    shapes = {(ladder.rows(n, length), length) for length in lengths for n in range(1, ladder.full(length))}
    assert len(shapes) < 110


@given(
    examples=st.lists(st.tuples(st.integers(1, 64), st.integers(1, 4)), min_size=1, max_size=60),
    budget=st.sampled_from([64, 300, 4096]),
    spare=st.booleans(),
    most=st.sampled_from([None, 5]),
)
def test_every_example_is_in_one_batch_that_holds_it(examples, budget, spare, most):
    tokens = Lengths(*zip(*examples, strict=True))
    ladder = Ladder(64, budget, most)
    cuts = by_ladder(Examples.of([(0, tokens, i) for i in range(len(examples))]), ladder, spare)
    assert sorted(number for cut in cuts for number in cut.chosen) == list(range(len(examples)))
    for cut in cuts:
        rows = sum(examples[number][1] for number in cut.chosen)
        assert max(examples[number][0] for number in cut.chosen) <= cut.length
        assert cut.rows >= rows + spare
        assert cut.rows <= ladder.full(cut.length) or len(cut.chosen) == 1
    # of examples of one row, only the last batch has rows that carry no answer
    if tokens.one_row_each and not spare:
        assert all(cut.rows == len(cut.chosen) for cut in cuts[:-1])


@given(
    examples=st.lists(st.tuples(st.integers(1, 64), st.integers(1, 4)), min_size=1, max_size=60),
    budget=st.sampled_from([64, 300, 4096]),
    spare=st.booleans(),
    most=st.sampled_from([None, 5]),
    overhead=st.sampled_from([0.0, 100.0, 1800.0]),
)
def test_the_cheapest_batches_hold_every_example_and_cost_no_more_than_those_of_the_ladder(
    examples, budget, spare, most, overhead
):
    tokens = Lengths(*zip(*examples, strict=True))
    ladder = Ladder(64, budget, most)
    listed = Examples.of([(0, tokens, i) for i in range(len(examples))])
    cuts = cheapest(listed, ladder, overhead, spare)
    assert sorted(number for cut in cuts for number in cut.chosen) == list(range(len(examples)))
    for cut in cuts:
        rows = sum(examples[number][1] for number in cut.chosen)
        assert max(examples[number][0] for number in cut.chosen) <= cut.length
        assert cut.rows == ladder.rows(rows + spare, cut.length) >= rows + spare
        assert cut.rows <= ladder.full(cut.length) or len(cut.chosen) == 1
    assert cost(cuts, overhead) <= cost(by_ladder(listed, ladder, spare), overhead)


@given(
    lengths=st.lists(st.integers(1, 64), min_size=1, max_size=9),
    most=st.sampled_from([None, 3, 5]),
    overhead=st.sampled_from([0.0, 50.0, 100.0, 400.0]),
)
def test_no_other_batches_are_cheaper(lengths, most, overhead):
    """Of those that take the examples in the order of their lengths."""
    ladder = Ladder(64, 256, most)
    tokens = Lengths(lengths, [1] * len(lengths))
    cuts = cheapest(Examples.of([(0, tokens, i) for i in range(len(lengths))]), ladder, overhead)
    ordered = sorted(lengths, reverse=True)
    every = []
    for ends in product([False, True], repeat=len(lengths) - 1):
        stops = [i + 1 for i, end in enumerate(ends) if end]
        batches = [ordered[a:b] for a, b in pairwise([0, *stops, len(lengths)])]
        padded = [ladder.length(batch[0]) for batch in batches]
        if all(len(batch) <= ladder.full(length) for batch, length in zip(batches, padded, strict=True)):
            rows = [ladder.rows(len(b), length) for b, length in zip(batches, padded, strict=True)]
            every.append(sum(overhead + r * length for r, length in zip(rows, padded, strict=True)))
    assert cost(cuts, overhead) == min(every)


def test_few_examples_are_one_coarse_batch_until_all_shapes_are_captured():
    tokens = Lengths([100] + [10] * 19, [1] * 20)
    listed = Examples.of([(0, tokens, i) for i in range(20)])
    assert [(cut.rows, cut.length) for cut in to_capture(listed, 128)] == [(32, 128)]
    assert [(cut.rows, cut.length) for cut in to_capture(listed, 128, overhead=500.0)] == [(1, 112), (32, 16)]
    assert [(cut.rows, cut.length) for cut in to_capture(listed, 128, overhead=1e4)] == [(32, 112)]


SEVERAL = st.tuples(st.integers(1, 128), st.integers(1, 3))


@given(
    examples=st.one_of(
        st.lists(SEVERAL, min_size=1, max_size=FEW), st.lists(SEVERAL, min_size=FEW + 1, max_size=2 * FEW)
    ),
    overhead=st.sampled_from([100.0, 760.0, 1800.0, 8000.0]),
    spare=st.booleans(),
)
def test_a_batch_that_is_cut_again_stays_one_batch_or_costs_no_more(examples, overhead, spare):
    """A server cuts what waits, and `all_logits` cuts each of these batches again.

    Batches of few examples stay as they are. Those of more may be cut further: batches of one row, and the
    exact ends of a batch, are considered only then.
    """
    tokens = Lengths(*zip(*examples, strict=True))
    listed = [(0, tokens, i) for i in range(len(examples))]
    for cut in to_capture(Examples.of(listed), 128, spare=spare, overhead=overhead):
        chosen = Examples.of([listed[int(i)] for i in cut.chosen])
        again = to_capture(chosen, 128, spare=spare, overhead=overhead)
        assert cost(again, overhead) <= cost([cut], overhead)
        if len(examples) <= FEW:
            assert [(same.rows, same.length) for same in again] == [(cut.rows, cut.length)]


def test_a_batch_of_many_examples_may_be_cut_further():
    lengths = [128] + [16] * (FEW + 1)
    tokens = Lengths(lengths, [1] * len(lengths))
    listed = [(0, tokens, i) for i in range(len(lengths))]
    cuts = to_capture(Examples.of(listed), 128, overhead=100.0)
    again = [
        part
        for cut in cuts
        for part in to_capture(Examples.of([listed[int(i)] for i in cut.chosen]), 128, overhead=100.0)
    ]
    assert len(again) > len(cuts)
    assert cost(again, 100.0) < cost(cuts, 100.0)


def cost(cuts, overhead):
    return sum(overhead + cut.rows * cut.length for cut in cuts)


@pytest.mark.parametrize("most", [1, 7])
def test_a_batch_has_no_more_rows_than_were_asked_for(most):
    tokens = Lengths([20] * 30, [1] * 30)
    cuts = by_ladder(Examples.of([(0, tokens, i) for i in range(30)]), Ladder(most=most))
    assert max(len(cut.chosen) for cut in cuts) == most


@given(
    examples=st.lists(st.tuples(st.integers(1, 3000), st.integers(1, 4)), min_size=1, max_size=60),
    most=st.sampled_from([None, 5]),
    all_captured=st.booleans(),
)
def test_long_rows_that_fill_a_batch_run_eagerly_and_all_others_by_the_ladder(examples, most, all_captured):
    tokens = Lengths(*zip(*examples, strict=True))
    listed = Examples.of([(0, tokens, i) for i in range(len(examples))])
    eager, captured = in_two_ways(listed, None, most, all_captured=all_captured)
    assert sorted(int(i) for cut in (*eager, *captured) for i in cut.chosen) == list(range(len(examples)))
    long = {i for i, (length, _) in enumerate(examples) if length > LONG}
    fills = sum(length * rows for length, rows in examples if length > LONG) >= TOKENS
    assert {int(i) for cut in eager for i in cut.chosen} == (long if fills and not all_captured else set())
    for cut in captured:
        assert max(examples[int(i)][0] for i in cut.chosen) <= cut.length
