"""Fits a linear map of features to targets: logistic or ridge regression, regularized by cross-validation.

A kind declares which of them its head can begin with (`Kind.probe`):

- `classes`: multinomial logistic regression; targets are label ids, [n].
- `flags`: one logistic regression per output; targets are 0 or 1, [n, C].
- `numbers`: ridge regression; targets are numbers, [n, C].

Features are divided by one number, the root of their mean variance, so that one range of regularization fits
every encoder; the map is then rewritten for features as they are. Dividing each feature by its own deviation
would give large weights to features that hardly vary, and dropout would destroy what they say. scikit-learn
does the fitting. If the features will change in training, the map is regularized towards the head's initial
values and not towards zero (`weft.training.head_start.around`).
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from weft.training.head_start.around import logistic_around

if TYPE_CHECKING:
    from sklearn.linear_model import LogisticRegression

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Probe = Literal["classes", "flags", "numbers"]

STRENGTHS = tuple(10.0**power for power in range(-5, 1))
"""scikit-learn's C, the inverse of the strength of regularization, for features of mean variance 1."""
FOLDS = 3
FEW = 24
"""With fewer rows than this nothing is fitted: a fold would hold hardly an example of each label."""
ITERATIONS = 2000
EXACT, ROUGH = 1e-6, 1e-3
"""The solver's tolerance for the final fit, and for the fits that only choose the regularization."""
NEWTON = 1600
"""The widest features for which Newton's method is used."""
HALF = 0.5
"""The count of a label that no row has, when its prior probability is estimated."""


@dataclass(frozen=True)
class LinearFit:
    """A fitted map, logits = weight·x + bias.

    Attributes:
        weight: [C, d].
        bias: [C].
        strength: the C that cross-validation chose; for ridge regression 1/alpha. The mean over the outputs
            for `flags`.
        rows: the number of rows that it was fitted on.
    """

    weight: Floats
    bias: Floats
    strength: float
    rows: int


def fit(
    probe: Probe,
    features: Floats,
    targets: NDArray[Any],
    size: int,
    label_weights: NDArray[Any] | None = None,
    around: Floats | None = None,
) -> LinearFit | None:
    """Fit a map to all rows, or return None if there is nothing to learn: few rows, or one label alone.

    Args:
        probe: the kind of regression.
        features: [n, d].
        targets: [n] label ids, or [n, C] flags or numbers.
        size: C, the number of outputs.
        label_weights: the weight of the rows of each label, [C], for `classes`; None: 1.
        around: the weights that regularization pulls towards, [C, d]; None: zero.

    Example:
        >>> probe = fit("classes", np.random.randn(100, 4), np.arange(100) % 2, size=2)
        >>> probe.weight.shape, probe.bias.shape
        ((2, 4), (2,))
    """
    if len(features) < FEW:
        return None
    mean, scale = features.mean(0), float(np.sqrt(features.var(0).mean()))
    if scale == 0:
        return None
    standard = (features - mean) / scale
    pull = None if around is None else np.asarray(around, float) * scale
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a fold without some label, a solver that stops early: both harmless
        if probe == "classes":
            solution = _classes(standard, targets, size, label_weights, pull)
        elif probe == "flags":
            solution = _flags(standard, targets, size, pull)
        else:
            solution = _numbers(standard, targets, size, pull)
    if solution is None:
        return None
    weight, bias, strength = solution
    weight = weight / scale
    return LinearFit(weight, bias - weight @ mean, strength, len(features))


def _classes(
    x: Floats, y: Ints, size: int, label_weights: NDArray[Any] | None, around: Floats | None
) -> tuple[Floats, Floats, float] | None:
    if len(np.unique(y)) < 2:
        return None
    weights = np.ones(len(y)) if label_weights is None else np.asarray(label_weights, float)[y]
    strength = _best_strength(x, y, weights)
    present, ids = np.unique(y, return_inverse=True)
    if around is None:
        model = _logistic(x, y, EXACT).set_params(C=strength).fit(x, y, weights)
        weight, bias = model.coef_, model.intercept_
        if len(present) == 2:  # scikit-learn has one row for two classes: the difference of their logits
            weight, bias = np.concatenate([-weight, weight]) / 2, np.concatenate([-bias, bias]) / 2
    else:
        weight, bias = logistic_around(around[present], x, ids, weights, strength)
    every_weight = np.zeros((size, x.shape[1])) if around is None else around.copy()
    every_bias = np.zeros(size)
    every_weight[present], every_bias[present] = weight, bias
    absent = np.setdiff1d(np.arange(size), present)
    if len(absent):
        # as likely, for the average row, as a label that half a row has
        total = np.logaddexp.reduce(x @ weight.T + bias, axis=1).mean()
        every_bias[absent] = total + np.log(HALF / len(x))
    return every_weight, every_bias, strength


def _flags(x: Floats, y: Ints, size: int, around: Floats | None) -> tuple[Floats, Floats, float] | None:
    weight = np.zeros((size, x.shape[1])) if around is None else around.copy()
    bias, strengths = np.zeros(size), []
    for output in range(size):
        flags = y[:, output].astype(np.int64)
        if len(np.unique(flags)) == 2:
            strengths.append(_best_strength(x, flags, np.ones(len(x))))
            if around is None:
                model = _logistic(x, flags, EXACT).set_params(C=strengths[-1]).fit(x, flags)
                weight[output], bias[output] = model.coef_[0], model.intercept_[0]
            else:  # a flag's logit is the difference of two
                pair = np.stack([-around[output], around[output]]) / 2
                both, biases = logistic_around(pair, x, flags, np.ones(len(x)), strengths[-1])
                weight[output], bias[output] = both[1] - both[0], biases[1] - biases[0]
        else:
            rows = len(x) + 2 * HALF
            bias[output] = np.log((flags.sum() + HALF) / (rows - flags.sum() - HALF))
    return (weight, bias, float(np.mean(strengths))) if strengths else None


def _numbers(x: Floats, y: Floats, size: int, around: Floats | None) -> tuple[Floats, Floats, float] | None:
    from sklearn.linear_model import Ridge, RidgeCV

    if not np.ptp(y, axis=0).any():
        return None
    y = y.reshape(len(y), size)
    # leave-one-out, in closed form; alpha = 1/C in scikit-learn's terms
    model = RidgeCV(alphas=[1 / c for c in (*STRENGTHS, 10.0)]).fit(x, y)
    alpha = float(model.alpha_)
    pull = np.zeros((size, x.shape[1]))
    if around is not None:
        pull, model = around, Ridge(alpha).fit(x, y - x @ around.T)
    return pull + model.coef_.reshape(size, -1), np.atleast_1d(model.intercept_), 1 / alpha


def _logistic(x: Floats, y: Ints, tolerance: float) -> LogisticRegression:
    from sklearn.linear_model import LogisticRegression

    # Newton's method needs few steps and a matrix of [d, d]; for several classes that would be [C·d, C·d]
    newton = len(np.unique(y)) == 2 and x.shape[1] <= NEWTON
    solver = "newton-cholesky" if newton else "lbfgs"
    return LogisticRegression(solver=solver, max_iter=ITERATIONS, tol=tolerance, warm_start=True)


def _best_strength(x: Floats, y: Ints, weights: Floats) -> float:
    """Return the C with the lowest cross-entropy on rows that were left out, over all folds.

    It goes from strong to weak regularization, each fit from the solution of the one before, and ends when
    the loss has risen: weaker regularization costs the most and would not be chosen.
    """
    from sklearn.model_selection import KFold

    folds = []
    for kept, left in KFold(FOLDS, shuffle=True, random_state=0).split(x):
        if len(np.unique(y[kept])) > 1:
            folds.append((_logistic(x[kept], y[kept], ROUGH), kept, left))
    best = STRENGTHS[0], np.inf
    for strength in STRENGTHS:
        loss = 0.0
        for model, kept, left in folds:
            model.set_params(C=strength).fit(x[kept], y[kept], weights[kept])
            loss += _cross_entropy(model, x[left], y[left], weights[left])
        if loss >= best[1]:
            break
        best = strength, loss
    return best[0]


def _cross_entropy(model: LogisticRegression, x: Floats, y: Ints, weights: Floats) -> float:
    """−Σ weight·log p(y); a label that the fold did not have gets the probability of half a row."""
    chances = model.predict_proba(x)
    places = np.searchsorted(model.classes_, y).clip(max=len(model.classes_) - 1)
    known = model.classes_[places] == y
    of_label = np.where(known, chances[np.arange(len(y)), places], HALF / len(x))
    return float(-(weights * np.log(np.maximum(of_label, 1e-12))).sum())
