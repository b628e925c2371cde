"""From logits to probabilities, divided by the task's temperature if it has one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def softmax(logits: NDArray[Any], temperature: float | None = None) -> NDArray[np.float64]:
    """softmax(logits / temperature) over the last dimension in float64, [..., n].

    Args:
        logits: [..., n].
        temperature: above 1 makes probabilities more equal, below 1 less; None: 1.
    """
    import numpy as np

    shifted = (logits - logits.max(-1, keepdims=True)).astype(np.float64)
    chances = np.exp(shifted if temperature is None else shifted / temperature)
    return chances / chances.sum(-1, keepdims=True)


def sigmoid(logits: NDArray[Any], temperature: float | None = None) -> NDArray[np.float64]:
    """1/(1 + e^(−logit/temperature)) in float64, [..., C].

    Args:
        logits: [..., C].
        temperature: see `softmax`.
    """
    import numpy as np

    scores = logits.astype(np.float64)
    return np.exp(-np.logaddexp(0, -(scores if temperature is None else scores / temperature)))
