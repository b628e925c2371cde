"""Variance components: unbiased, without counting anything twice; targets; the bootstrap's weights."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.simulated_glue import set_rows, simulated_run
from tests.support.simulated_runs import WORLDS, World, labelled, runs_of
from weft.errors import WeftError
from weft.evaluation.averages import AVERAGES, average
from weft.evaluation.rows import RunRows
from weft.evaluation.scores import main_score
from weft.experiments.statistics import average_target, task_targets
from weft.experiments.statistics.bootstrap import resampled_metrics, resampled_weights
from weft.experiments.statistics.components import (
    mean_components,
    paired_components,
    unpaired_components,
)
from weft.experiments.statistics.covariance import SetCovariance, resample, set_covariances


def test_weights_are_resampled_sets_and_depend_on_seed_and_size_only():
    whole = np.concatenate(list(resampled_weights(50, 70, seed=3)))
    assert whole.shape == (70, 50)
    assert (whole.sum(1) == 50).all()
    assert (whole >= 0).all()
    assert (whole == np.round(whole)).all()
    for block in (1, 7, 1000):
        np.testing.assert_array_equal(np.concatenate(list(resampled_weights(50, 70, 3, block))), whole)
    assert (np.concatenate(list(resampled_weights(50, 70, seed=4))) != whole).any()
    many = np.concatenate(list(resampled_weights(40, 4000, 0)))
    assert many.var() == pytest.approx(1 - 1 / 40, rel=0.02)  # that of a multinomial count


def test_the_variance_of_an_accuracy_is_the_binomials():
    draw = np.random.default_rng(0)
    gold = np.ones(60, int)
    answers = (draw.random(60) < 0.7).astype(int)
    run = RunRows({"a": set_rows(("accuracy",), gold, answers)})
    sets, without = set_covariances(task_targets([run])[0], [run], resample([run], 20_000, 0))
    share = answers.mean()
    assert without == []
    assert sets[0].matrix[0, 0] == pytest.approx(share * (1 - share) / 59, rel=0.03)
    assert sets[0].units == 60


def test_groups_are_resampled_whole():
    """Ten copies of each answer in a group carry no more information than one."""
    draw = np.random.default_rng(1)
    answers, gold = (draw.random(40) < 0.7).astype(int), np.ones(40, int)
    plain = RunRows({"a": set_rows(("accuracy", "question_em"), gold, answers, range(40))})
    copies = np.repeat(np.arange(40), 10)
    copied = RunRows(
        {"a": set_rows(("accuracy", "question_em"), gold[copies], answers[copies], copies.tolist())}
    )
    for run in (plain, copied):
        assert run.sets["a"].units.count == 40
    one, two = (resampled_metrics([run.sets["a"]], 200, 0) for run in (plain, copied))
    for metric in ("accuracy", "question_em"):
        np.testing.assert_allclose(one[metric][1], two[metric][1])


def crossed(draw, seeds, rows, a, b, e):
    """Scores and row covariance of additive effects: Y = a·α[s] + b·β[r] + e·ε[s, r]."""
    table = (
        a * draw.normal(size=(seeds, 1)) + b * draw.normal(size=rows) + e * draw.normal(size=(seeds, rows))
    )
    return table.mean(1), SetCovariance(np.cov(table) / rows, rows)


@pytest.mark.each_value
@pytest.mark.parametrize(
    ("a", "b", "e"), [(0.2, 1.0, 1.0), (0.0, 1.0, 3.0), (0.5, 0.0, 0.5), (0.0, 2.0, 0.1)]
)
@pytest.mark.parametrize("seeds", [3, 5])
def test_the_variance_is_unbiased_and_counts_nothing_twice(a, b, e, seeds):
    """The mean of V̂ over many tables is the variance of the mean over seeds: σ_a²/n + σ_b²/N + σ_e²/(n·N)."""
    draw = np.random.default_rng(2)
    rows, found, twice = 50, [], []
    for _ in range(3000):
        scores, covariance = crossed(draw, seeds, rows, a, b, e)
        parts = mean_components(scores.tolist(), range(seeds), [covariance])
        found.append(parts.variance)
        twice.append(scores.var(ddof=1) / seeds + covariance.matrix.mean())
    truth = a**2 / seeds + b**2 / rows + e**2 / (seeds * rows)
    # rows without effect, and the floor, raise it a little
    assert truth * 0.95 < np.mean(found) < truth * 1.12
    assert np.mean(twice) == pytest.approx(truth + e**2 / (seeds * rows), rel=0.05)


def test_pairing_removes_what_two_variants_have_in_common():
    draw = np.random.default_rng(3)
    shared = draw.normal(size=(5, 1)) + draw.normal(size=80)
    tables = [shared + 0.1 * draw.normal(size=(5, 80)) for _ in range(2)]
    both = SetCovariance(np.cov(np.concatenate(tables)) / 80, 80)
    first, second = (table.mean(1).tolist() for table in tables)
    paired = paired_components(first, second, range(5), range(5, 10), [both])
    by_seed = [dict(zip(range(k, k + 5), values, strict=True)) for k, values in ((0, first), (7, second))]
    numbers = [
        dict(zip(values, range(k, k + 5), strict=True)) for k, values in zip((0, 5), by_seed, strict=True)
    ]
    unpaired = unpaired_components(*by_seed, *numbers, [both])
    assert paired.estimate == pytest.approx(unpaired.estimate)
    assert paired.paired is True
    assert unpaired.paired is False
    assert paired.seed_variance < 0.01 * unpaired.seed_variance
    # rows are paired in any case
    assert unpaired.row_variance < 0.001
    assert 4 < unpaired.seed_df <= 8
    # the same by hand: the mean over seeds of the differences
    differences = np.subtract(first, second)
    assert paired.seed_variance == pytest.approx(differences.var(ddof=1) / 5, rel=1e-6)


def test_one_seed_has_rows_only_and_no_rows_has_seeds_only():
    covariance = SetCovariance(np.array([[4e-4]]), 100)
    one = mean_components([0.8], [0], [covariance])
    assert (one.seed_variance, one.row_variance, one.df) == (None, 4e-4, pytest.approx(99))
    bare = mean_components([0.8, 0.9, 0.7], [0, 1, 2], [])
    assert (bare.seed_variance, bare.row_variance) == (pytest.approx(0.01 / 3), None)
    assert bare.df == 2
    nothing = mean_components([0.8], [0], [])
    assert nothing.variance is None


def test_three_equal_scores_have_a_floor():
    """Scores that are equal by chance do not make an interval without width."""
    noise = SetCovariance(np.diag([1e-4] * 3), 100)
    parts = mean_components([0.5, 0.5, 0.5], [0, 1, 2], [noise])
    assert parts.seed_variance == pytest.approx(1e-4 / 3 * 0.0513, rel=1e-2)
    assert parts.df >= 2


@given(st.integers(0, 3), st.sampled_from(["average", *AVERAGES]))
def test_targets_are_the_averages_of_evaluations(seed, name):
    run = simulated_run(0, seed)
    scores = run.metrics()
    for target in task_targets([run]):
        assert target.value(run) == pytest.approx(main_score(scores[target.name]))
    if name == "average":
        expected = np.mean([main_score(metrics) for metrics in scores.values()])
        assert average_target(name, [run]).value(run) == pytest.approx(expected)
    elif average(name, scores).missing:
        with pytest.raises(WeftError, match=f"average '{name}' needs .* the runs do not have"):
            average_target(name, [run])
    else:
        assert average_target(name, [run]).value(run) == pytest.approx(average(name, scores).value)


def test_an_average_of_means_of_metrics_and_of_errors():
    gold = np.array([0.0, 1.0, 2.0, 3.0])
    run = RunRows({"n": set_rows(("mse", "pearson"), gold, gold + np.eye(4)[3])})
    target = task_targets([run])[0]
    assert target.value(run) == pytest.approx(1 - 0.25)
    assert average_target("average", [run]).value(run) == pytest.approx(0.75)
    assert target.value(RunRows({})) is None
    assert average_target("n", [run, RunRows({})]) == target
    with pytest.raises(WeftError, match="average 'glue10' is neither an average nor a task; did you mean"):
        average_target("glue10", [run])


def test_covariances_of_sets_add_up():
    """The covariance of an average is that of its tasks; a task with two sets has two."""
    runs = list(
        runs_of({t: labelled(np.random.default_rng(t == "x"), World(), [0.8], 3, 90) for t in "xy"})[
            "v0"
        ].values()
    )
    resampled = resample(runs, 400, 0)
    tasks = [set_covariances(target, runs, resampled)[0] for target in task_targets(runs)]
    both = set_covariances(average_target("average", runs), runs, resampled)[0]
    assert [len(sets) for sets in (*tasks, both)] == [1, 1, 2]
    for (task,), part in zip(tasks, both, strict=True):
        np.testing.assert_allclose(part.matrix, task.matrix / 4)
    assert WORLDS["rows"].accuracy(WORLDS["rows"].threshold(0.8)) == pytest.approx(0.8)
