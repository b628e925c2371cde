"""The fits are scikit-learn's, and give sound maps whatever the labels are."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression, Ridge

from weft.training.head_start.fit import FEW, STRENGTHS, fit


def drawn(rows, width, seed, scale=3.0):
    """Features of unequal scales, with a constant one among them."""
    draw = np.random.default_rng(seed)
    features = draw.normal(size=(rows, width)) * scale ** np.arange(width) + 5
    features[:, 0] = 2.0
    return features, draw


@pytest.mark.each_value
@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("weighted", [False, True])
def test_classes_are_those_of_scikit_learn(classes, weighted):
    features, draw = drawn(120, 6, 1)
    labels = (features[:, 2] // 3 + draw.integers(0, 2, 120)).astype(int) % classes
    weights = np.arange(1, classes + 1) if weighted else None
    found = fit("classes", features, labels, classes, weights)
    assert found.strength in STRENGTHS
    strength = found.strength / features.var(0).mean()
    twin = LogisticRegression(C=strength, tol=1e-8, max_iter=20000)
    twin.fit(features - features.mean(0), labels, None if weights is None else weights[labels])
    logits = features @ found.weight.T + found.bias
    shares = np.exp(logits - np.logaddexp.reduce(logits, axis=1)[:, None])
    np.testing.assert_allclose(shares, twin.predict_proba(features - features.mean(0)), atol=1e-3)


def test_numbers_are_those_of_scikit_learn():
    features, draw = drawn(80, 5, 2)
    targets = features[:, 1:3] @ np.array([[0.2, 0.0], [0.0, -0.1]]) + draw.normal(size=(80, 2))
    found = fit("numbers", features, targets, 2)
    twin = Ridge(alpha=features.var(0).mean() / found.strength).fit(features, targets)
    np.testing.assert_allclose(features @ found.weight.T + found.bias, twin.predict(features), atol=1e-6)


def test_flags_are_one_regression_per_label():
    features, draw = drawn(90, 4, 3)
    flags = (features[:, 1:4] + draw.normal(size=(90, 3)) > 5).astype(np.float32)
    flags[:, 2] = 0  # no row has the last label
    found = fit("flags", features, flags, 3)
    alone = fit("classes", features, flags[:, 0].astype(int), 2)
    logits = features @ found.weight.T + found.bias
    difference = features @ (alone.weight[1] - alone.weight[0]) + alone.bias[1] - alone.bias[0]
    np.testing.assert_allclose(logits[:, 0], difference, atol=1e-6)
    assert (logits[:, 2] < -4).all()


def test_regularization_is_chosen_by_rows_that_were_left_out():
    features, draw = drawn(200, 20, 4, scale=1.0)
    noise = fit("classes", features, draw.integers(0, 2, 200), 2)
    signal = fit("classes", features, (features[:, 1] > 5).astype(int), 2)
    assert noise.strength < signal.strength


@given(st.integers(FEW, 60), st.integers(2, 7), st.integers(0, 10**6))
def test_a_label_without_rows_is_unlikely_and_finite(rows, classes, seed):
    features, draw = drawn(rows, 3, seed)
    present = draw.permutation(classes)[: max(2, classes - 2)]
    labels = present[draw.integers(0, len(present), rows)]
    labels[:2] = present[:2]
    found = fit("classes", features, labels, classes)
    logits = features @ found.weight.T + found.bias
    assert np.isfinite(logits).all()
    shares = np.exp(logits - np.logaddexp.reduce(logits, axis=1)[:, None]).mean(0)
    absent = np.setdiff1d(np.arange(classes), labels)
    assert (shares[absent] < 0.25).all()


def test_nothing_to_learn_is_no_fit():
    features, _ = drawn(50, 3, 5)
    assert fit("classes", np.ones((50, 3)), np.arange(50) % 2, 2) is None
    assert fit("classes", features, np.ones(50, int), 3) is None
    assert fit("flags", features, np.zeros((50, 2)), 2) is None
    assert fit("numbers", features, np.full((50, 1), 0.5), 1) is None
    assert fit("classes", features[: FEW - 1], np.arange(FEW - 1) % 2, 2) is None


@pytest.mark.parametrize("probe", ["classes", "flags", "numbers"])
def test_around_zero_is_scikit_learn(probe):
    features, draw = drawn(100, 5, 6, scale=1.5)
    noise = draw.normal(size=(100, 3))
    targets = {
        "classes": (features[:, 1:4] + noise).argmax(1),
        "flags": (features[:, 1:4] + noise > 5).astype(int),
        "numbers": features[:, 1:4] + noise,
    }[probe]
    plain, around = (fit(probe, features, targets, 3, around=x) for x in (None, np.zeros((3, 5))))
    assert around.strength == plain.strength
    logits = [features @ x.weight.T + x.bias for x in (plain, around)]
    if probe == "classes":  # a constant added to all logits of a row changes nothing
        logits = [x - x.mean(1, keepdims=True) for x in logits]
    np.testing.assert_allclose(*logits, atol=2e-3)


def test_two_classes_around_zero_are_scikit_learns():
    features, draw = drawn(100, 5, 7, scale=1.5)
    labels = (features[:, 1] + draw.normal(size=100) > 5).astype(int)
    plain, around = (fit("classes", features, labels, 2, around=x) for x in (None, np.zeros((2, 5))))
    logits = [features @ x.weight.T + x.bias for x in (plain, around)]
    np.testing.assert_allclose(*(x[:, 1] - x[:, 0] for x in logits), atol=2e-3)


@pytest.mark.parametrize("probe", ["classes", "flags", "numbers"])
def test_without_signal_the_given_weights_stay(probe):
    """Regularized towards zero the weights would vanish; the bias still fits how often each label occurs."""
    draw = np.random.default_rng(8)
    features = draw.normal(size=(600, 30)) + 1
    rare = (draw.random(600) < 0.2).astype(int)
    targets = {"classes": rare, "flags": rare[:, None], "numbers": draw.normal(size=(600, 1)) * 0.05}[probe]
    size = 2 if probe == "classes" else 1
    initial = draw.normal(size=(size, 30)) * 0.02
    plain, around = (fit(probe, features, targets, size, around=x) for x in (None, initial))
    assert np.linalg.norm(around.weight - initial) < 0.5 * np.linalg.norm(initial)
    assert np.linalg.norm(plain.weight) < 0.5 * np.linalg.norm(initial)
    if probe == "classes":
        logits = features @ around.weight.T + around.bias
        assert (logits.argmax(1) == 0).mean() > 0.97


def test_signal_outweighs_the_given_weights():
    draw = np.random.default_rng(9)
    features = draw.normal(size=(600, 30))
    labels = (features[:, 0] > 0).astype(int)
    around = fit("classes", features, labels, 2, around=draw.normal(size=(2, 30)) * 0.02)
    predicted = (features @ around.weight.T + around.bias).argmax(1)
    assert (predicted == labels).mean() > 0.95
