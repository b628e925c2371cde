"""Logits on their way from the device to the examples they belong to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Logits = NDArray[np.float32]


class HostLogits:
    """Logits on their way to the host.

    Args:
        logits: of all head shapes, one after another, [n].
        shapes: the shape of each head shape's logits, in that order.
    """

    def __init__(self, logits: Tensor, shapes: Mapping[str, torch.Size]) -> None:
        self._shapes = shapes
        cuda = logits.device.type == "cuda"
        self._moving = logits.to("cpu", non_blocking=cuda)
        self._there = torch.cuda.Event() if cuda else None
        if self._there is not None:
            self._there.record()

    @classmethod
    def of(cls, by_shape: Mapping[str, Tensor]) -> HostLogits:
        """Send the logits of some head shapes."""
        every = torch.cat([x.float().flatten() for x in by_shape.values()])
        return cls(every, {name: x.shape for name, x in by_shape.items()})

    def wait(self) -> dict[str, Logits]:
        """The logits by head shape, once they have arrived."""
        if self._there is not None:
            self._there.synchronize()
        flat = np.array(self._moving.numpy())  # a copy: pinned memory is scarce
        found, first = {}, 0
        for name, shape in self._shapes.items():
            found[name] = flat[first : first + shape.numel()].reshape(shape)
            first += shape.numel()
        return found


class BatchLogits:
    """The logits of one batch, and which examples they belong to.

    Args:
        moving: the logits, by head shape.
        examples: the numbers of the batch's examples.
        of_rows: the example of each row, by the same numbers; rows that carry no answer are left out.
        lengths: the tokens of each row.
    """

    def __init__(
        self, moving: HostLogits, examples: Sequence[int], of_rows: Sequence[int], lengths: Sequence[int]
    ) -> None:
        self._moving, self._examples, self._of_rows, self._lengths = moving, examples, of_rows, lengths

    def put(self, found: list[Logits | None], heads: Sequence[str], answers_by: Mapping[str, str]) -> None:
        """Give each example its own logits, once they have arrived.

        Args:
            found: by the number of the example; filled.
            heads: the head shape of each example, by the same numbers.
            answers_by: of each head shape, whether its logits are by `example`, `row` or `token`.
        """
        logits = self._moving.wait()
        rows: list[range] | None = None
        for place, example in enumerate(self._examples):
            shape = heads[example]
            by = answers_by[shape]
            if by == "example":
                found[example] = logits[shape][place]
                continue
            if rows is None:
                rows = runs(self._of_rows)
            if by == "row":
                found[example] = logits[shape][rows[place].start : rows[place].stop, 0]
            else:
                found[example] = np.concatenate(
                    [logits[shape][row, : self._lengths[row]] for row in rows[place]]
                )


def runs(numbers: Sequence[int]) -> list[range]:
    """The ranges of equal neighbors: [4, 4, 7] → [0:2, 2:3]."""
    every = np.asarray(numbers)
    ends = [*(np.flatnonzero(every[1:] != every[:-1]) + 1).tolist(), len(every)]
    return [range(first, end) for first, end in zip([0, *ends], ends, strict=False)]
