"""Decisions: probabilities of choices beside scipy and scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from scipy.special import expit, log_expit, softmax
from sklearn.metrics import log_loss

from weft.tasks.kinds.decisions import Decisions

LOGITS = arrays.arrays(
    np.float32,
    st.tuples(st.integers(1, 12), st.integers(2, 5)),
    elements=st.floats(-30, 30, width=32),
)
TEMPERATURES = st.floats(0.05, 20)


def ids(logits, seed):
    return np.random.default_rng(seed).integers(0, logits.shape[1], len(logits))


@given(LOGITS, TEMPERATURES, st.integers(0, 9))
def test_classes_are_a_softmax(logits, temperature, seed):
    gold = ids(logits, seed)
    decisions = Decisions.of_classes(logits, gold)
    chances = softmax(logits.astype(np.float64) / temperature, axis=1)
    np.testing.assert_allclose(
        np.exp(decisions.log_probabilities(temperature)).reshape(logits.shape), chances, atol=1e-12
    )
    assert (decisions.is_right == (logits.argmax(1) == gold)).all()
    np.testing.assert_allclose(decisions.confidence(temperature), chances[range(len(gold)), logits.argmax(1)])
    np.testing.assert_allclose(
        decisions.probability(len(logits), temperature), decisions.confidence(temperature)
    )


@given(arrays.arrays(np.float32, (9, 3), elements=st.floats(-8, 8, width=32)), st.integers(0, 9))
def test_negative_log_likelihood_beside_scikit_learn(logits, seed):
    gold = ids(logits, seed)
    chances = softmax(logits.astype(np.float64), axis=1)
    expected = log_loss(gold, chances, labels=[0, 1, 2])
    assert Decisions.of_classes(logits, gold).negative_log_likelihood() == pytest.approx(expected, rel=1e-6)


@given(
    arrays.arrays(np.float32, (7, 3), elements=st.floats(-8, 8, width=32)), st.integers(0, 9), TEMPERATURES
)
def test_flags_are_a_softmax_against_zero(logits, seed, temperature):
    draw = np.random.default_rng(seed)
    gold, predicted = draw.integers(0, 2, (2, 7, 3))
    decisions = Decisions.of_flags(logits, gold, predicted)
    scaled = logits.astype(np.float64) / temperature
    answered = expit(np.where(predicted == 1, scaled, -scaled))
    np.testing.assert_allclose(decisions.confidence(temperature), answered.ravel(), rtol=1e-9)
    np.testing.assert_allclose(decisions.probability(7, temperature), answered.prod(1), rtol=1e-9)
    assert (decisions.is_right == (gold == predicted).ravel()).all()
    expected = -log_expit(np.where(gold == 1, scaled, -scaled)).mean()
    assert decisions.negative_log_likelihood(temperature) == pytest.approx(expected)
    wrong = np.where(gold == predicted, 0, answered).max(1)
    np.testing.assert_allclose(decisions.wrong_confidence(7, temperature), wrong, rtol=1e-9)


def test_candidates_by_hand():
    logits = [np.array([0.0, np.log(3.0)]), np.array([np.log(2.0), 0.0, 0.0])]
    decisions = Decisions.of_candidates(logits, [(0,), (0, 2)])
    assert decisions.sizes.tolist() == [2, 3]
    assert decisions.is_right.tolist() == [False, True]
    np.testing.assert_allclose(decisions.confidence(), [0.75, 0.5])
    # of several right candidates, their probabilities are added
    assert decisions.negative_log_likelihood() == pytest.approx((-np.log(0.25) - np.log(0.75)) / 2)
    np.testing.assert_allclose(decisions.wrong_confidence(2), [0.75, 0])


def test_no_decisions():
    none = Decisions.of_classes(np.zeros((0, 3)), [], "word")
    assert none.negative_log_likelihood() == 0
    assert none.probability(2).tolist() == [1, 1]
    assert len(none.confidence()) == 0
