"""The features that a task's head reads: one vector per example, from the model as it is before training."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from weft.inference.finite import check_logits
from weft.inference.runner import outputs

if TYPE_CHECKING:
    from weft.core.route import Route
    from weft.data.tokens.tokens import Tokens
    from weft.model.heads import Head
    from weft.model.model import Model
    from weft.model.pooling import Reads


def head_features(model: Model, name: str, tokens: Tokens, which: Sequence[int]) -> NDArray[np.float64]:
    """Return the input of a task's head for some examples, [n, d'], in eval mode and in float32.

    The head's logits are a linear map of it, as long as the head has one layer. If an example has several
    rows, their logits are averaged, and so are their features.

    Args:
        model: the model; it is put into eval mode.
        name: a task whose kind answers by example.
        tokens: its tokenized split.
        which: the indices of n examples.
    """
    number = model.task_id(name)
    head: Head = model.heads[model.tasks[number].head]  # type: ignore[assignment]
    seen: list[Tensor] = []

    def read(_: Any, inputs: tuple[Reads, Route]) -> None:
        reads, route = inputs
        by_row = head.inputs(reads, route)[:, 0]
        over = reads.layout.first if head.reads == "pair" else reads.layout.mean
        seen.append(over(by_row).float())

    features: NDArray[np.float64] | None = None
    hook = head.register_forward_pre_hook(read)
    try:
        with torch.no_grad():
            for batch in outputs(model, [(number, tokens, i) for i in which]):
                values = seen.pop().cpu().numpy()
                if features is None:
                    features = np.empty((len(which), values.shape[1]))
                features[batch.examples] = values[: len(batch.examples)]
    finally:
        hook.remove()
    assert features is not None
    odd = np.asarray(~np.isfinite(features).all(1))
    check_logits(model.tasks, np.full(len(which), number), odd)
    return features
