import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.more import examples
from weft.utils.counter_rng import bits, draw_key
from weft.utils.permutation import permute

KEY = draw_key(1, "test")


def keys(count):
    return bits(KEY, np.arange(count, dtype=np.uint64))


def is_permutation(values, n):
    return len(values) == n and (np.bincount(values, minlength=n) == 1).all()


def test_every_small_n_is_permuted():
    for n in range(1, 400):
        assert is_permutation(permute(np.arange(n), n, KEY), n)


@pytest.mark.parametrize("n", [999_999, 1_000_000, 1024**2, 1024**2 + 1, 1024 * 1023 + 1, 3_000_017])
def test_millions_are_permuted(n):
    assert is_permutation(permute(np.arange(n), n, KEY), n)


@settings(deadline=None, max_examples=examples(50))
@given(st.integers(1, 20_000), st.integers(0, 2**64 - 1))
def test_any_n_with_any_key_is_permuted(n, key):
    assert is_permutation(permute(np.arange(n), n, np.array(key, np.uint64)), n)


@given(st.integers(1, 2**40), st.data())
def test_an_entry_is_found_alone(n, data):
    positions = data.draw(st.lists(st.integers(0, n - 1), min_size=1, max_size=8))
    together = permute(positions, n, KEY)
    assert together.tolist() == [int(permute(p, n, KEY)) for p in positions]
    assert (together >= 0).all()
    assert (together < n).all()
    assert len(set(together.tolist())) == len(set(positions))


def test_n_and_key_may_differ_by_entry():
    n = np.array([1, 2, 3, 5, 100, 10_001, 10_000_000])
    key, positions = keys(len(n)), n // 2
    expected = [int(permute(p, m, k)) for p, m, k in zip(positions, n, key, strict=True)]
    assert permute(positions, n, key).tolist() == expected
    assert permute(np.array([[0], [1]]), 50, key).shape == (2, len(n))


def test_no_positions():
    assert permute(np.arange(0), 1, KEY).shape == (0,)


def test_another_key_gives_another_order():
    orders = {tuple(permute(np.arange(50), 50, key)) for key in keys(200)}
    assert len(orders) == 200


@pytest.mark.parametrize("n", [2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 17, 30])
def test_pairs_of_positions_go_everywhere_equally(n):
    count = 20_000
    first, second = permute(np.array([[0], [1]]), n, keys(count))
    pairs = np.bincount(first * n + second, minlength=n * n).reshape(n, n)
    assert (np.diag(pairs) == 0).all()
    found, expected = pairs[~np.eye(n, dtype=bool)], count / (n * (n - 1))
    # 2 % for what twelve rounds leave at the smallest n, and five standard deviations
    assert (abs(found - expected) < 0.02 * expected + 5 * np.sqrt(expected)).all()


@pytest.mark.parametrize("n", [1000, 1024, 1_000_000])
def test_neighbours_are_torn_apart(n):
    x = permute(np.arange(n), n, KEY) / n
    for lag in (1, 2, round(n**0.5), n // 2):
        assert abs(np.corrcoef(x[:-lag], x[lag:])[0, 1]) < 5 / np.sqrt(n - lag)
    assert abs(np.corrcoef(x, np.arange(n))[0, 1]) < 5 / np.sqrt(n)
    assert np.count_nonzero(permute(np.arange(n), n, KEY) == np.arange(n)) < 8  # about 1 is expected
