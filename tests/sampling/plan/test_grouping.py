from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from weft.sampling.plan.grouping import group_batches, group_mixed
from weft.utils.counter_rng import bits, draw_key

KEY = draw_key(1, "test")
some_lengths = st.lists(st.integers(1, 20), min_size=1, max_size=300).map(np.array)


def disjoint(batches):
    """Whether no batch's range of lengths goes past the beginning of the next one's."""
    batches = sorted(batches, key=lambda b: (b.min(), b.max()))
    return all(a.max() <= b.min() for a, b in pairwise(batches))


@given(some_lengths, st.integers(1, 40))
def test_batches_hold_every_place_once_and_like_lengths(lengths, batch_size):
    batches = group_batches(lengths, batch_size, KEY)
    assert sorted(np.concatenate(batches)) == list(range(len(lengths)))
    full, rest = divmod(len(lengths), batch_size)
    assert [len(b) for b in batches] == [batch_size] * full + [rest] * (rest > 0)
    assert disjoint([lengths[b] for b in batches])


def test_the_order_of_batches_and_the_short_one_are_drawn():
    lengths = np.arange(41)
    orders = [
        [int(b[0]) for b in group_batches(lengths, 4, k)] for k in bits(KEY, np.arange(500, dtype=np.uint64))
    ]
    assert len({tuple(order) for order in orders}) == 500
    assert {order[-1] for order in orders} == set(range(0, 41, 4))  # the short batch may be of any length
    assert min(order[0] for order in orders) == 0
    assert max(order[0] for order in orders) == 37


def test_ties_stay_in_draw_order():
    for batch in group_batches(np.ones(64, int), 8, KEY):
        assert (np.diff(batch) == 1).all()


@given(some_lengths, st.integers(1, 8), st.data())
def test_mixed_draws_stay_in_the_order_of_epochs(lengths, batch_size, data):
    m = -(-len(lengths) // batch_size) * batch_size
    lengths = np.resize(lengths, m)
    task = np.array(data.draw(st.lists(st.integers(0, 3), min_size=m, max_size=m)))
    sizes = np.array(data.draw(st.lists(st.integers(1, 200), min_size=4, max_size=4)))
    epoch = np.empty(m, int)
    for t in range(4):
        epoch[task == t] = np.arange((task == t).sum()) // sizes[t]
    arranged = group_mixed(lengths, task, epoch, batch_size, KEY)
    assert sorted(arranged) == list(range(m))
    for t in range(4):
        assert (np.diff(epoch[arranged][task[arranged] == t]) >= 0).all()
    if not epoch.any():
        assert disjoint(lengths[arranged].reshape(-1, batch_size))


def test_mixed_batches_stay_of_like_length_when_epochs_end():
    rng = np.random.default_rng(0)
    lengths, task = rng.integers(1, 129, 2048), rng.integers(0, 4, 2048)
    epoch = (np.arange(2048) > 900).astype(int)
    batches = lengths[group_mixed(lengths, task, epoch, 32, KEY)].reshape(64, 32)
    assert np.ptp(lengths.reshape(64, 32), axis=1).mean() > 115
    assert np.ptp(batches, axis=1).mean() < 15
