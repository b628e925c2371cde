"""Logistic regression that is regularized towards given weights instead of towards zero.

    minimize over V, b:  Σ_i w_i · −log softmax((W₀ + V)·x_i + b)_{y_i}  +  ‖V‖² / (2·C)

A head gets W = W₀ + V. Where the features say nothing about the labels, V stays near zero and W near W₀, so
that gradients still reach what lies below the head. Regularized towards zero, such a head would begin at
nearly zero, and the encoder below it would learn late. scikit-learn has no such starting point; with W₀ = 0
the result is scikit-learn's.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import log_softmax

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

ITERATIONS = 2000
TOLERANCE = 1e-6
"""The largest entry of the gradient of the mean loss at which the solver ends."""


def logistic_around(
    around: Floats, x: Floats, y: Ints, weights: Floats, strength: float
) -> tuple[Floats, Floats]:
    """Return W and b of a multinomial logistic regression that is regularized towards `around`.

    Args:
        around: W₀, [C, d].
        x: the features, [n, d].
        y: label ids from 0 to C − 1, [n].
        weights: the weight of each row, [n].
        strength: scikit-learn's C. For two classes scikit-learn penalizes the one vector W_1 − W_0, which
            is twice as much as both rows: this does the same.

    Example:
        >>> x, y = np.random.randn(50, 4), np.arange(50) % 3
        >>> weight, bias = logistic_around(np.zeros((3, 4)), x, y, np.ones(50), 1.0)
        >>> weight.shape, bias.shape
        ((3, 4), (3,))
    """
    classes, width = around.shape
    penalty = (2.0 if classes == 2 else 1.0) / (strength * len(x))
    offset = x @ around.T
    hits = np.eye(classes)[y]
    share = weights / len(x)

    def loss(flat: Floats) -> tuple[float, Floats]:
        step, bias = flat[: classes * width].reshape(classes, width), flat[classes * width :]
        logs = log_softmax(offset + x @ step.T + bias, axis=1)
        errors = (np.exp(logs) - hits) * share[:, None]
        value = -(share * logs[np.arange(len(y)), y]).sum() + 0.5 * penalty * (step**2).sum()
        gradient = np.concatenate([(errors.T @ x + penalty * step).ravel(), errors.sum(0)])
        return float(value), gradient

    options = {"maxiter": ITERATIONS, "gtol": TOLERANCE, "ftol": 0.0, "maxls": 50}
    solution = minimize(loss, np.zeros(classes * (width + 1)), jac=True, method="L-BFGS-B", options=options)
    step, bias = solution.x[: classes * width].reshape(classes, width), solution.x[classes * width :]
    return around + step, bias - bias.mean()
