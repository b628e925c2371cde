"""CovSim of a model's tasks, from the inputs of its first block."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from weft.analysis.covariance import (
    SHARE,
    Covariance,
    CovarianceSimilarity,
    check_settings,
    covariance_similarity,
)
from weft.evaluation.evaluate import fixed_rows
from weft.inference.runner import outputs

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import Tensor

    from weft.data.tokens.tokens import Tokens
    from weft.model.model import Model

SEED = 0
"""The seed of the selection of rows: the same rows for any model, so that models can be compared."""


def model_covariances(
    model: Model,
    data: Mapping[str, Tokens],
    rows: int | None = 500,
    pool: str = "mean",
    share: float = SHARE,
) -> CovarianceSimilarity:
    """CovSim of the model's tasks; the arguments are those of `covariances_of` and of `leading`."""
    check_settings(rows, pool, share)
    covariances = covariances_of(model, data, rows, pool)
    return covariance_similarity(list(covariances), list(covariances.values()), share)


def covariances_of(
    model: Model, data: Mapping[str, Tokens], rows: int | None = 500, pool: str = "mean"
) -> dict[str, Covariance]:
    """C of each task's inputs to the first block; every row runs under its own task, in eval mode.

    Args:
        model: a model of any method; if each task has its own encoder, that encoder's first block is used.
        data: the tokenized split of each task.
        rows: the number of rows per task, always the same ones, spread over the split; None: all.
        pool: one of `POOLS`.
    """
    names = [task.name for task in model.tasks if task.name in data]
    listed = [
        (model.task_id(name), data[name], row)
        for name in names
        for row in fixed_rows(len(data[name]), rows, SEED, name)
    ]
    covariances: dict[int, Covariance] = {}
    for batch in outputs(model, listed, layers=True):
        layers = batch.output.layers
        assert layers is not None
        pooled, owner = pooled_rows(layers[0].float().cpu(), batch.mask, pool)
        task = np.array([listed[example][0] for example in batch.of_rows])[owner]
        for which in np.unique(task).tolist():
            covariances.setdefault(which, Covariance(pooled.shape[1])).add(pooled[task == which])
    return {name: covariances[model.task_id(name)] for name in names}


def pooled_rows(states: Tensor, mask: Tensor, pool: str) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return rows of X, in float64, and the row of the batch that each comes from.

    Args:
        states: the inputs of the first block, [R, L, d].
        mask: 1 where a row has a token, [R, L].
        pool: one of `POOLS`.

    Returns:
        [R, d] and [R]; for `tokens` [N, d] and [N], where N is the number of tokens.
    """
    values, real = states.double().numpy(), mask.bool().numpy()
    if pool == "tokens":
        return values[real], np.nonzero(real)[0]
    owner = np.arange(len(values))
    if pool == "cls":
        return values[:, 0], owner
    # sums only over tokens, whatever the padding holds
    total = np.where(real[:, :, None], values, 0.0).sum(1)
    return total / real.sum(1, keepdims=True), owner
