"""Row statistics: every registered metric, recomputed under row weights."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import spearmanr

from tests.support.answers import ANSWERS, rows_of
from tests.support.more import examples
from weft.metrics import METRICS, metric
from weft.metrics.number_rows import Pearson, Spearman
from weft.metrics.rows import Mean, Ratio, Units


def cases():
    """Each metric with each answer type that it compares."""
    for name in METRICS:
        for compared in METRICS[name].compares:
            yield name, "two labels" if METRICS[name].labels == 2 else compared


def values(name, runs, groups, weights):
    """The metric of several (gold, predictions) of one split under weights, [W, R]."""
    rows = METRICS[name].rows
    units = Units.of_groups(groups, len(runs[0][0]))
    return rows.evaluator([rows.arrays(*run) for run in runs], units)(np.asarray(weights))


def test_every_metric_declares_row_statistics():
    assert [name for name in METRICS if METRICS[name].rows is None] == []


@pytest.mark.slow
@pytest.mark.parametrize(("name", "answers"), cases())
@settings(max_examples=examples(40), deadline=None)
@given(drawn=st.data(), rows=st.integers(0, 8))
def test_weights_are_repetitions(name, answers, drawn, rows):
    """All weights 1: the metric. Whole weights: the metric of the split with each unit repeated so often."""
    gold, predictions = drawn.draw(ANSWERS[answers](rows))
    # lists of tags and of scores must be as long as the gold's
    ragged = answers in ("tags", "entities", "rankings")
    others = predictions[:] if ragged else drawn.draw(ANSWERS[answers](rows))[1]
    runs = [(gold, predictions)]
    if ragged or np.shape(others) == np.shape(predictions):
        runs.append((gold, others))  # several runs at once, with different labels among them
    some = st.lists(st.integers(0, 3), min_size=rows, max_size=rows)
    groups = drawn.draw(st.none() | some)
    units = Units.of_groups(groups, rows)
    drawn_weights = st.lists(st.integers(0, 3), min_size=units.count, max_size=units.count)
    weights = [[1] * units.count, *(drawn.draw(drawn_weights) for _ in range(3))]
    table = values(name, runs, groups, np.array(weights, np.float64).reshape(4, units.count))
    bulk = values(name, runs, groups, np.array(weights, np.float32).reshape(4, units.count))
    assert table.shape == (4, len(runs))
    assert np.isfinite(table).all()
    np.testing.assert_allclose(bulk, table, atol=2e-5)
    np.testing.assert_allclose(table[0], [METRICS[name](*run, groups) for run in runs], rtol=1e-9, atol=1e-9)
    of = (
        np.arange(rows)
        if groups is None
        else np.array([list(dict.fromkeys(groups)).index(g) for g in groups])
    )
    for number, row_weights in enumerate(weights):
        copies = [(i, (of[i], c)) for i in range(rows) for c in range(row_weights[of[i]])]
        chosen = [i for i, _ in copies]
        # a copy of a group is a group of its own
        copied = None if groups is None else [group for _, group in copies]
        expected = [METRICS[name](rows_of(g, chosen), rows_of(p, chosen), copied) for g, p in runs]
        np.testing.assert_allclose(table[number], expected, rtol=1e-9, atol=1e-9)


def test_many_runs_and_labels_at_once():
    """More columns than one matrix product takes, and runs with different numbers of labels."""
    draw = np.random.default_rng(0)
    gold = draw.integers(0, 30, 200)
    runs = [(gold, draw.integers(0, 2 + 3 * run, 200)) for run in range(12)]
    weights = draw.multinomial(200, [1 / 200] * 200, 5).astype(np.float32)
    for name in ("macro_f1", "matthews", "accuracy"):
        table = values(name, runs, None, weights)
        for number, weight in enumerate(weights):
            chosen = np.repeat(np.arange(200), weight.astype(int))
            expected = [METRICS[name](g[chosen], p[chosen]) for g, p in runs]
            np.testing.assert_allclose(table[number], expected, atol=1e-6)


def test_ranks_of_real_numbers_and_ties():
    draw = np.random.default_rng(1)
    gold = draw.integers(0, 26, 1500) / 5  # STS-B's grades
    runs = [(gold, gold + draw.normal(0, spread, 1500)) for spread in (0.5, 1, 3)]
    runs.append((gold, np.round(runs[0][1])))
    weights = draw.multinomial(1500, [1 / 1500] * 1500, 4).astype(np.float32)
    table = values("spearman", runs, None, weights)
    for number, weight in enumerate(weights):
        chosen = np.repeat(np.arange(1500), weight.astype(int))
        expected = [spearmanr(g[chosen], p[chosen]).statistic for g, p in runs]
        np.testing.assert_allclose(table[number], expected, atol=5e-6)


def test_numbers_are_stored_once_for_three_metrics():
    gold, predictions = [1.0, 2.0, 4.0], [2.0, 1.0, 3.0]
    arrays = [METRICS[name].rows.arrays(gold, predictions) for name in ("pearson", "spearman", "mse")]
    for other in arrays[1:]:
        for side in ("gold", "predicted"):
            np.testing.assert_array_equal(arrays[0][side], other[side])


def test_numbers_far_from_zero_keep_their_digits():
    draw = np.random.default_rng(2)
    gold = 1e6 + draw.normal(size=300)
    runs = [(gold, 1e6 + 1e-3 * (gold - 1e6 + draw.normal(size=300)))]
    np.testing.assert_allclose(values("pearson", runs, None, np.ones((1, 300))), METRICS["pearson"](*runs[0]))
    for rows in (Pearson(), Spearman()):
        assert rows.evaluator([rows.arrays([1.0, 1.0], [2.0, 3.0])], Units(2))(np.ones((1, 2))) == [[0.0]]


def test_units_are_numbered_by_first_appearance():
    units = Units.of_groups(["b", "a", "b", "c"], 4)
    assert units.count == 3
    assert units.of is not None
    assert units.of.tolist() == [0, 1, 0, 2]
    assert units.sums(np.array([[1], [10], [100], [1000]])).tolist() == [[101], [10], [1000]]
    assert Units.of_groups(["b", "a"], 2).of is None
    assert Units.of_groups(None, 3) == Units(3)


def test_a_metric_of_your_own_declares_its_rows_in_one_place():
    @metric("numbers", rows=Mean(lambda gold, predictions: np.abs(np.subtract(gold, predictions)) <= 1))
    def within_one(gold, predictions, groups=None):
        return float((np.abs(np.subtract(gold, predictions)) <= 1).mean())

    gold, predictions = np.array([1.0, 5.0, 2.0]), np.array([1.5, 8.0, 2.0])
    rows = within_one.rows
    table = rows.evaluator([rows.arrays(gold, predictions)], Units(3))(np.array([[1, 1, 1], [0, 2, 1.0]]))
    np.testing.assert_allclose(table[:, 0], [within_one(gold, predictions), 1 / 3])
    shares = Ratio(lambda gold, predictions: (np.minimum(gold, predictions), gold))
    table = shares.evaluator([shares.arrays(gold, predictions)], Units(3))(np.array([[1, 1, 1.0], [0, 0, 0]]))
    np.testing.assert_allclose(table[:, 0], [1.0, 0.0])
