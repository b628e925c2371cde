"""Logits on their way from the device to the examples they belong to."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

if TYPE_CHECKING:
    from weft.model.output import Output

Logits = NDArray[np.float32]

Reader = Callable[["Output"], Mapping[str, Tensor]]
"""Takes tensors of an output, by name, where not its logits are wanted; see `weft.inference.embed`."""


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
            # of the logits' device, which need not be the current one
            self._there.record(torch.cuda.current_stream(logits.device))

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


class AllLogits:
    """The logits of n examples, filled batch by batch; read them after `finish`.

    Args:
        heads: the head shape of each task.
        task: the task id of each example, [n].
        answers_by: of each head shape, whether its logits are by `example`, `row` or `token`.
    """

    def __init__(self, heads: Sequence[str], task: NDArray[np.int64], answers_by: Mapping[str, str]) -> None:
        self._heads, self._task, self._by = heads, task, answers_by
        self._names = list(dict.fromkeys(heads))
        self._head = np.array([self._names.index(head) for head in heads])[task]  # [n]
        self._whole: dict[str, Logits] = {}  # of shapes that answer once per example, [n, C]
        self._each: dict[int, Logits] = {}
        self._found = np.zeros(len(task), bool)
        self._waiting: deque[BatchLogits] = deque()

    def __len__(self) -> int:
        return len(self._task)

    def add(self, batch: BatchLogits, ahead: int | None = None) -> None:
        """Take the logits of a batch, which may still be on their way.

        Args:
            batch: the batch.
            ahead: how many batches may be on their way before the oldest is waited for; None: any number.
        """
        self._waiting.append(batch)
        if ahead is not None and len(self._waiting) > ahead:
            self._put(self._waiting.popleft())

    def finish(self) -> AllLogits:
        """Wait for all that is on its way; returns this."""
        while self._waiting:
            self._put(self._waiting.popleft())
        return self

    def _put(self, batch: BatchLogits) -> None:
        """Give each example of a batch its own logits, once they have arrived."""
        logits = batch.moving.wait()
        examples = np.asarray(batch.examples)
        self._found[examples] = True
        heads = self._head[examples]
        rows: list[range] | None = None
        for number in np.unique(heads).tolist():
            shape = self._names[number]
            own, places = logits[shape], np.flatnonzero(heads == number)
            if self._by[shape] == "example":
                if shape not in self._whole:
                    self._whole[shape] = np.empty((len(self._task), own.shape[-1]), np.float32)
                self._whole[shape][examples[places]] = own[places]
                continue
            if rows is None:
                rows = runs(batch.of_rows)
            for place in places.tolist():
                mine = rows[place]
                self._each[int(examples[place])] = (
                    # a copy: a view would keep the whole batch
                    own[mine.start : mine.stop, 0].copy()
                    if self._by[shape] == "row"
                    else np.concatenate([own[row, : batch.lengths[row]] for row in mine])
                )

    def of(self, number: int) -> Logits | None:
        """The logits of one example; None where no batch had it."""
        if not self._found[number]:
            return None
        whole = self._whole.get(self._names[self._head[number]])
        return self._each.get(number) if whole is None else whole[number]

    def of_task(self, task: int, numbers: NDArray[np.int64]) -> Sequence[Logits]:
        """The logits of some examples of one task, [k, C] where it answers once per example."""
        shape = self._heads[task]
        if self._by[shape] == "example":
            found: Sequence[Logits] = self._whole[shape][numbers]  # type: ignore[assignment]
            return found
        return [self._each[number] for number in numbers.tolist()]


@dataclass(eq=False)
class BatchLogits:
    """The logits of one batch, and which examples they belong to.

    Attributes:
        moving: the logits, by head shape.
        examples: the numbers of the batch's examples.
        of_rows: the example of each row, by the same numbers; rows that carry no answer are left out.
        lengths: the tokens of each row.
    """

    moving: HostLogits
    examples: Sequence[int] | NDArray[np.int64]
    of_rows: Sequence[int] | NDArray[np.int64]
    lengths: Sequence[int]


def runs(numbers: Sequence[int] | NDArray[np.int64]) -> list[range]:
    """The ranges of equal neighbors: [4, 4, 7] → [0:2, 2:3]."""
    every = np.asarray(numbers)
    ends = [*(np.flatnonzero(every[1:] != every[:-1]) + 1).tolist(), len(every)]
    return [range(first, end) for first, end in zip([0, *ends], ends, strict=False)]
