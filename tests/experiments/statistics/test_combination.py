"""Sums of scores of several variants."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.simulated_runs import World, labelled, runs_of
from weft.experiments.statistics import CombinationTerm, Contrast, compare

WORLD = World(by_variant=0.3, shift=0.03, noise=0.3)


@pytest.fixture(scope="module")
def runs():
    draw = np.random.default_rng(3)
    return runs_of(
        {name: labelled(draw, WORLD, (0.75, 0.8, 0.9), 4, count) for name, count in (("a", 200), ("b", 120))}
    )


def of(runs, *combinations, contrasts=()):
    return compare(runs, contrasts, resamples=600, combinations=combinations)


@pytest.mark.parametrize("target", [None, "a", "b"])
def test_a_difference_is_a_contrast(runs, target):
    terms = (CombinationTerm(1.0, "v2", target), CombinationTerm(-1.0, "v0", target))
    found = of(runs, terms, contrasts=[Contrast("v2", "v0")])
    (contrast,) = found.contrasts
    expected = contrast.average if target is None else contrast.tasks[target]
    (difference,) = found.combinations
    for name in ("estimate", "se", "se_seeds", "se_rows", "df"):
        assert getattr(difference, name) == pytest.approx(getattr(expected, name)), name
    assert difference.interval == pytest.approx(expected.interval)


def test_a_sum_of_three_variants(runs):
    terms = (CombinationTerm(1.0, "v2"), CombinationTerm(-0.5, "v0"), CombinationTerm(-0.5, "v1"))
    found = of(runs, terms)
    means = {name: found.variants[name]["average"].mean for name in runs}
    (difference,) = found.combinations
    assert difference.estimate == pytest.approx(means["v2"] - (means["v0"] + means["v1"]) / 2)
    low, high = difference.interval
    assert low < difference.estimate < high


def test_factors_scale_everything(runs):
    one, two = of(runs, (CombinationTerm(1.0, "v1"),), (CombinationTerm(-2.0, "v1"),)).combinations
    assert two.estimate == pytest.approx(-2 * one.estimate)
    assert two.se == pytest.approx(2 * one.se)
    mean = of(runs).variants["v1"]["average"]
    assert (one.estimate, one.se) == (pytest.approx(mean.mean), pytest.approx(mean.se))


def test_an_average_is_the_mean_of_its_tasks(runs):
    apart = (CombinationTerm(0.5, "v1", "a"), CombinationTerm(0.5, "v1", "b"))
    first, second = of(runs, apart, (CombinationTerm(1.0, "v1"),)).combinations
    assert first.estimate == pytest.approx(second.estimate)
    assert first.se == pytest.approx(second.se)


def test_seeds_that_not_all_variants_have(runs):
    fewer = {**runs, "v0": {seed: run for seed, run in runs["v0"].items() if seed in list(runs["v0"])[:3]}}
    (difference,) = of(fewer, (CombinationTerm(1.0, "v1"), CombinationTerm(-1.0, "v0"))).combinations
    assert difference.seeds == 3


@pytest.mark.parametrize("term", [CombinationTerm(1.0, "none"), CombinationTerm(1.0, "v0", "none")])
def test_what_no_run_has(runs, term):
    assert of(runs, (term,)).combinations == (None,)
