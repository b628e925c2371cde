"""Rules that merge task vectors: equal to PEFT's, and their properties."""

from __future__ import annotations

from unittest.mock import patch

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from peft.utils import merge_utils

from weft.bundle.merge_rules import RULES, Merge, agreeing_mean, dropped, trimmed
from weft.errors import WeftError
from weft.utils.seeding import generator

SEEDS = st.integers(0, 2**31)
COUNTS = st.integers(2, 4)
DENSITIES = st.sampled_from([0.1, 0.25, 0.5, 0.9])
SHAPES = st.sampled_from([(7,), (4, 5), (3, 1)])


def vectors_of(seed, count, shape):
    draws = torch.Generator().manual_seed(seed)
    # a few zeros and a few equal magnitudes, as in weights that were not trained
    vectors = [torch.randn(shape, generator=draws).mul(3).round().div(3) for _ in range(count)]
    names = [f"task {number}" for number in range(count)]
    weights = {name: 0.25 * (number + 1) for number, name in enumerate(names)}
    return vectors, names, weights


@given(SEEDS, COUNTS, SHAPES)
def test_linear_and_task_arithmetic_are_those_of_peft(seed, count, shape):
    vectors, names, weights = vectors_of(seed, count, shape)
    given_weights = torch.tensor(list(weights.values()))
    summed = Merge("task_arithmetic", weights)(vectors, names, "x")
    torch.testing.assert_close(summed, merge_utils.task_arithmetic(vectors, given_weights))
    mean = Merge("linear", weights, scale=2.0)(vectors, names, "x")
    shares = given_weights / given_weights.sum()
    torch.testing.assert_close(mean, 2.0 * merge_utils.task_arithmetic(vectors, shares))


@given(SEEDS, COUNTS, SHAPES, DENSITIES)
def test_ties_is_that_of_peft(seed, count, shape, density):
    vectors, names, weights = vectors_of(seed, count, shape)
    ours = Merge("ties", weights, density=density)(vectors, names, "x")
    theirs = merge_utils.ties(vectors, torch.tensor(list(weights.values())), density)
    torch.testing.assert_close(ours, theirs)


@given(SEEDS, COUNTS, SHAPES, DENSITIES)
def test_dare_is_that_of_peft_with_the_same_draws(seed, count, shape, density):
    vectors, names, weights = vectors_of(seed, count, shape)
    given_weights = torch.tensor(list(weights.values()))
    for rule, theirs in (("dare", merge_utils.dare_linear), ("dare_ties", merge_utils.dare_ties)):
        ours = Merge(rule, weights, density=density, seed=seed)(vectors, names, "x")
        draws = [torch.rand(shape, generator=generator(seed, name, "x")) for name in names]
        with patch("torch.bernoulli", side_effect=[(draw < density).float() for draw in draws]):
            torch.testing.assert_close(ours, theirs(vectors, given_weights, density))


@given(SEEDS, SHAPES, st.sampled_from(sorted(RULES)))
def test_equal_vectors_are_their_own_mean(seed, shape, rule):
    """Where nothing is dropped, merging a task with itself changes nothing; a sum of two is twice as much."""
    vectors, _, _ = vectors_of(seed, 1, shape)
    density = None if RULES[rule].density is None else 1.0
    merged = Merge(rule, density=density)([vectors[0]] * 2, ["a", "b"], "x")
    factor = 2.0 if rule in ("task_arithmetic", "dare") else 1.0
    torch.testing.assert_close(merged, factor * vectors[0])


@given(SEEDS, COUNTS, SHAPES)
def test_an_agreeing_mean_never_has_the_other_sign(seed, count, shape):
    vectors, _, _ = vectors_of(seed, count, shape)
    merged = agreeing_mean(torch.stack(vectors), [1.0] * count)
    total = torch.stack(vectors).sum(0)
    assert (merged * total >= 0).all()
    assert (merged.abs() <= torch.stack(vectors).abs().amax(0) + 1e-6).all()


@given(SEEDS, SHAPES, DENSITIES)
def test_trimming_keeps_the_largest(seed, shape, density):
    vector = vectors_of(seed, 1, shape)[0][0]
    kept = trimmed(vector, density)
    count = int(density * vector.numel())
    assert (kept != 0).sum() <= count
    largest = vector.abs().flatten().sort(descending=True).values[:count]
    torch.testing.assert_close(kept.abs().flatten().sort(descending=True).values[:count], largest)
    assert ((kept == 0) | (kept == vector)).all()


def test_dropping_keeps_the_expectation():
    vector = torch.ones(20_000)
    kept = dropped(vector, 0.3, torch.Generator().manual_seed(1))
    torch.testing.assert_close(kept.unique(), torch.tensor([0.0, 1 / 0.3]))
    # the standard error of the mean is √(0.7/0.3/20000) = 0.011
    assert kept.mean().item() == pytest.approx(1.0, abs=0.05)


def test_draws_depend_on_seed_task_and_tensor_alone():
    vectors = [torch.ones(200), torch.ones(200)]
    first = Merge("dare", seed=1)(vectors, ["a", "b"], "x")
    assert torch.equal(first, Merge("dare", seed=1)(vectors[::-1], ["b", "a"], "x"))
    for other in (Merge("dare", seed=2)(vectors, ["a", "b"], "x"), Merge("dare")(vectors, ["a", "b"], "y")):
        assert not torch.equal(first, other)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"rule": "tie"}, "merge 'tie'; did you mean 'ties'"),
        ({"rule": "linear", "density": 0.5}, "density 0.5: linear keeps all entries"),
        ({"rule": "ties", "density": 0.0}, "density must be above 0 and at most 1; found 0"),
        ({"rule": "dare", "density": 1.5}, "found 1.5"),
        ({"rule": "ties", "scale": float("nan")}, "scale: expected a number; found nan"),
        (
            {"rule": "ties", "weights": [1, 2]},
            r"weights: expected numbers by the names of tasks; found \[1, 2",
        ),
        ({"rule": "ties", "weights": {"a": "x"}}, "a: expected a number; found 'x'"),
        ({"rule": "ties", "density": "half"}, "density: expected a number; found 'half'"),
        ({"rule": "dare", "seed": 1.5}, "seed: expected a whole number; found 1.5"),
        ({"rule": ["ties"]}, "merge"),
    ],
)
def test_wrong_settings(settings, message):
    with pytest.raises(WeftError, match=message):
        Merge(**settings)


def test_wrong_weights():
    with pytest.raises(WeftError, match="weights: no bundle has a task 'ret'; did you mean 'rte'"):
        Merge("ties", {"ret": 1.0}).of_tasks(["cola", "rte"])
    with pytest.raises(WeftError, match="a mean needs weights with a sum above 0; found 0"):
        Merge("linear", {"cola": 1.0, "rte": -1.0}).of_tasks(["cola", "rte"])
