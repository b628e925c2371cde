"""Makes the row statistics of one set from the answers that were judged."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.evaluation.rows.run_rows import SetRows
from weft.metrics import METRICS
from weft.metrics.rows import Units

if TYPE_CHECKING:
    from weft.tasks.kinds.kind import Kind


def collect_rows(
    kind: Kind, scores: Mapping[str, float], gold: Any, predictions: Any, groups: Sequence[Any] | None
) -> SetRows:
    """Return the row statistics of one evaluated set.

    Args:
        kind: the task's kind, which decides what each metric compares.
        scores: the metrics of the set.
        gold: the output of `Kind.gold`, N answers.
        predictions: the output of `Kind.decode`, N answers.
        groups: N hashables; examples with equal ones are judged together. None: separately.
    """
    arrays = {}
    for name in scores:
        rows = METRICS[name].rows
        if rows is not None:
            arrays[name] = rows.arrays(*kind.compared_by(name, gold, predictions))
    count = len(gold)
    return SetRows(count, Units.of_groups(groups, count), _fingerprint(gold, groups), dict(scores), arrays)


def _fingerprint(gold: Any, groups: Sequence[Any] | None) -> str:
    """A short hash of the gold answers and groups, in their order."""
    plain = gold.tolist() if isinstance(gold, np.ndarray) else [_plain(answer) for answer in gold]
    return hashlib.sha256(repr((plain, groups)).encode()).hexdigest()[:16]


def _plain(answer: Any) -> Any:
    """An answer whose `repr` does not depend on numpy's version or settings."""
    return answer.tolist() if isinstance(answer, np.ndarray | np.generic) else answer
