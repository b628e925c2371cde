"""Row statistics of the metrics of labels that are no simple ratio: Matthews, macro F1, whole groups."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.metrics.rows import Arrays, Evaluator, Floats, Mean, Rows, Sums, Units, ratio


class LabelIds(Rows):
    """What is stored: the gold and the predicted label of each row, as numbers from 0, [N].

    For 0 and 1 per label, [N, C], these are stored themselves.
    """

    def arrays(self, gold: Any, predictions: Any) -> dict[str, NDArray[Any]]:
        """The labels of both sides."""
        gold, predictions = np.asarray(gold), np.asarray(predictions)
        if gold.ndim > 1:
            return {"gold": gold == 1, "predicted": predictions == 1}
        labels = np.union1d(gold, predictions)
        return {"gold": np.searchsorted(labels, gold), "predicted": np.searchsorted(labels, predictions)}


class Matthews(LabelIds, Sums):
    """Matthews' correlation from r, g_k and p_k: right, gold and predicted rows of each label k."""

    def columns(self, arrays: Arrays) -> NDArray[Any]:
        """R and, for each label, g and p, [N, 1 + 2·K]."""
        gold, predicted = _flags(arrays)
        return np.concatenate([(gold & predicted).sum(1, keepdims=True), gold, predicted], 1).astype(np.int64)

    def value(self, sums: Floats) -> Floats:
        """(N·r − Σ g_k·p_k) / √((N² − Σ g_k²)·(N² − Σ p_k²)); 0 if all labels of one side are equal."""
        labels = (sums.shape[-1] - 1) // 2
        gold, predicted = sums[..., 1 : 1 + labels], sums[..., 1 + labels :]
        count = gold.sum(-1)
        product = (count**2 - (gold**2).sum(-1)) * (count**2 - (predicted**2).sum(-1))
        return ratio(count * sums[..., 0] - (gold * predicted).sum(-1), np.sqrt(product.clip(0)))


class MacroF1(LabelIds, Sums):
    """The mean of the labels' F1, from 2·right and gold + predicted of each label.

    For ids, labels that no row with a weight above 0 has do not count; for [N, C] all C labels count.
    """

    def arrays(self, gold: Any, predictions: Any) -> dict[str, NDArray[Any]]:
        """The labels of both sides, and whether all labels count."""
        arrays = super().arrays(gold, predictions)
        return {**arrays, "all": np.array([np.asarray(gold).ndim > 1])}

    def columns(self, arrays: Arrays) -> NDArray[Any]:
        """For each label 2·right and gold + predicted, and 1 in the last column if all labels count."""
        gold, predicted = _flags(arrays)
        every = np.full((len(gold), 1), int(arrays["all"][0]))
        both = gold.astype(np.int64) + predicted
        return np.concatenate([2 * (gold & predicted), both, every], 1)

    def value(self, sums: Floats) -> Floats:
        """The mean over the labels that count."""
        labels = (sums.shape[-1] - 1) // 2
        right, both = sums[..., :labels], sums[..., labels : 2 * labels]
        counts = (both > 0) | (sums[..., -1:] > 0)
        return ratio(ratio(right, both).sum(-1), counts.sum(-1))


class AllRight(Rows):
    """The share of units whose rows are all right."""

    def arrays(self, gold: Any, predictions: Any) -> dict[str, NDArray[Any]]:
        """Whether each row is right, [N]."""
        return {"value": np.asarray(gold) == np.asarray(predictions)}

    def evaluator(self, runs: Sequence[Arrays], units: Units) -> Evaluator:
        """The mean over the units."""
        per_unit = []
        for arrays in runs:
            wrong = units.sums(~arrays["value"].astype(bool)[:, None])[:, 0]
            per_unit.append({"value": wrong == 0})
        return Mean(np.equal).evaluator(per_unit, Units(units.count))


def _flags(arrays: Arrays) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Which label each row has, and which is predicted, [N, K] each."""
    gold, predicted = arrays["gold"], arrays["predicted"]
    if gold.ndim > 1:
        return gold.astype(bool), predicted.astype(bool)
    # stored ids may be bytes
    labels = np.arange(max((int(side.max()) for side in (gold, predicted) if side.size), default=-1) + 1)
    return gold[:, None] == labels, predicted[:, None] == labels
