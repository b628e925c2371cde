"""The token lengths of all tasks' training examples."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from weft.errors import WeftError
from weft.utils.counter_rng import Ints


class Lengths:
    """Lengths by task and index, in one array.

    Args:
        lengths: the token lengths of each task's examples, T arrays of shape [n_i].
        sizes: the number of examples of each task, [T].
        names: the tasks' names, for messages, [T].
    """

    def __init__(self, lengths: Sequence[ArrayLike], sizes: Ints, names: Sequence[str]) -> None:
        if len(lengths) != len(sizes):
            raise WeftError(f"lengths: expected one array per task, {len(sizes)}; found {len(lengths)}")
        arrays = [np.asarray(task_lengths) for task_lengths in lengths]
        for name, size, array in zip(names, sizes, arrays, strict=True):
            if array.shape != (size,) or not np.issubdtype(array.dtype, np.integer):
                raise WeftError(
                    f"lengths: task {name!r} has {size} examples and needs as many whole numbers; "
                    f"found shape {list(array.shape)} of {array.dtype}"
                )
            if array.min() < 0:
                raise WeftError(f"lengths: task {name!r} has the length {array.min()} at {array.argmin()}")
        self.flat = np.concatenate(arrays).astype(np.int32)
        self._offset = np.cumsum(sizes) - sizes

    def of(self, task: int | Ints, index: Ints) -> Ints:
        """Return the lengths of examples from their task ids and indices, which are broadcast."""
        return self.flat[self._offset[task] + index].astype(np.int64)
