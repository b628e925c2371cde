"""Calibration: whether answers with the probability p are right in the share p of cases.

Decisions are sorted into bins of equal width by their confidence, the probability of the chosen option:

    ECE = Σ_b n_b/n · |accuracy_b − confidence_b|

with the share of right decisions and the mean confidence of bin b (Naeini et al., 2015). It is between 0 and
1, and depends on the bins, so their number is always stated.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from weft.tasks.kinds.decisions import Decisions
    from weft.tasks.task import Task

BINS = 15
"""The number of bins, as in Guo et al. (2017)."""


@dataclass(frozen=True)
class Bin:
    """Decisions with low < confidence ≤ high: their number, mean confidence and share of right ones."""

    low: float
    high: float
    count: int
    confidence: float
    accuracy: float


def reliability(decisions: Decisions, temperature: float = 1.0, bins: int = BINS) -> list[Bin]:
    """Return the bins that are not empty, from the least confident one on.

    Args:
        decisions: the decisions.
        temperature: the number by which scores are divided.
        bins: the number of bins between 0 and 1.
    """
    confidence = decisions.confidence(temperature)
    which = (np.ceil(confidence * bins) - 1).clip(0, bins - 1).astype(int)
    counts = np.bincount(which, minlength=bins)
    confidences = np.bincount(which, confidence, minlength=bins)
    right = np.bincount(which, decisions.is_right, minlength=bins)
    return [
        Bin(
            b / bins,
            (b + 1) / bins,
            int(counts[b]),
            float(confidences[b] / counts[b]),
            float(right[b] / counts[b]),
        )
        for b in np.flatnonzero(counts).tolist()
    ]


def expected_calibration_error(decisions: Decisions, temperature: float = 1.0, bins: int = BINS) -> float:
    """Return the expected calibration error, from 0 to 1; 0 if there are no decisions.

    Args:
        decisions: the decisions.
        temperature: the number by which scores are divided.
        bins: the number of bins between 0 and 1.
    """
    count = max(len(decisions), 1)
    gaps = [
        b.count / count * abs(b.accuracy - b.confidence) for b in reliability(decisions, temperature, bins)
    ]
    return float(sum(gaps))


def calibration_facts(decisions: Decisions, task: Task) -> dict[str, Any]:
    """Return the calibration of a task's decisions, with its temperature, as errors.json has it.

    Args:
        decisions: the decisions.
        task: the task.
    """
    temperature = task.temperature or 1.0
    return {
        "unit": decisions.unit,
        "count": len(decisions),
        "nll": decisions.negative_log_likelihood(temperature),
        "ece": expected_calibration_error(decisions, temperature),
        "bins": BINS,
        "temperature": task.temperature,
        "fitted_on": task.calibrated_on,
        "reliability": [asdict(b) for b in reliability(decisions, temperature)],
    }
