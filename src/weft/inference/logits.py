"""Logits on their way from the device to the host, and their assignment to examples."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

if TYPE_CHECKING:
    from weft.model.output import Output

Logits = NDArray[np.float32]

Reader = Callable[["Output"], Mapping[str, Tensor]]
"""Returns tensors of an output, by name, to be used instead of its logits; see `weft.inference.embed`."""


class HostLogits:
    """Logits on their way to the host.

    Args:
        logits: the logits of all head shapes, concatenated, [n].
        shapes: the tensor shape of each head shape's logits, in the same order.

    Attributes:
        arrived: happens when the logits have been copied, on the stream that computes them; None on a CPU.
    """

    def __init__(self, logits: Tensor, shapes: Mapping[str, torch.Size]) -> None:
        self._shapes = shapes
        cuda = logits.device.type == "cuda"
        self._moving = logits.to("cpu", non_blocking=cuda)
        self.arrived = torch.cuda.Event() if cuda else None
        if self.arrived is not None:
            # on the logits' device, which need not be the current one
            self.arrived.record(torch.cuda.current_stream(logits.device))

    @classmethod
    def of(cls, by_shape: Mapping[str, Tensor]) -> HostLogits:
        """Start the copy of the logits of some head shapes."""
        every = torch.cat([x.float().flatten() for x in by_shape.values()])
        return cls(every, {name: x.shape for name, x in by_shape.items()})

    def wait(self) -> dict[str, Logits]:
        """Wait for the copy and return the logits by head shape."""
        if self.arrived is not None:
            self.arrived.synchronize()
        flat = np.array(self._moving.numpy())  # a copy: pinned memory is scarce
        logits, first = {}, 0
        for name, shape in self._shapes.items():
            logits[name] = flat[first : first + shape.numel()].reshape(shape)
            first += shape.numel()
        return logits


class AllLogits:
    """The logits of n examples in p pieces, filled batch by batch; read them after `finish`.

    Most examples are one piece; `weft.inference.pieces` cuts long ones.

    Args:
        heads: the head shape of each task that occurs in `task`, by task id.
        task: the task id of each piece, [p].
        answers_by: whether the logits of each head shape are by `example`, `row` or `token`.
        starts: the number of the first piece of each example, and p, [n + 1]; None: each example is one.

    Attributes:
        odd: whether the logits of each piece are not all finite, [p].
    """

    def __init__(
        self,
        heads: Mapping[int, str] | Sequence[str],
        task: NDArray[np.int64],
        answers_by: Mapping[str, str],
        starts: NDArray[np.int64] | None = None,
    ) -> None:
        self._heads, self._task, self._by, self._starts = heads, task, answers_by, starts
        self.odd = np.zeros(len(task), bool)
        present, which = np.unique(task, return_inverse=True)
        of_present = [heads[index] for index in present.tolist()]
        self._names = list(dict.fromkeys(of_present))
        self._head = np.array([self._names.index(head) for head in of_present], np.int64)[which]  # [p]
        self._whole: dict[str, Logits] = {}  # for shapes with one output per example, [n, C]
        self._each: dict[int, Logits] = {}
        self._filled = np.zeros(len(task), bool)
        self._waiting: deque[BatchLogits] = deque()

    def __len__(self) -> int:
        return len(self._task)

    def add(self, batch: BatchLogits, ahead: int | None = None) -> None:
        """Add the logits of a batch, which may still be on their way.

        Args:
            batch: the batch.
            ahead: how many batches may be on their way before this waits for the oldest; None: any number.
        """
        self._waiting.append(batch)
        if ahead is not None and len(self._waiting) > ahead:
            self._store(self._waiting.popleft())

    def finish(self) -> AllLogits:
        """Wait for all batches that are on their way; return this object."""
        while self._waiting:
            self._store(self._waiting.popleft())
        return self

    def _store(self, batch: BatchLogits) -> None:
        """Wait for the logits of a batch and store them by example."""
        logits = batch.moving.wait()
        examples = np.asarray(batch.examples)
        self._filled[examples] = True
        heads = self._head[examples]
        # padding and heads that no example of the batch uses may hold anything
        doubtful = not all(np.isfinite(shape_logits).all() for shape_logits in logits.values())
        rows: list[range] | None = None
        for number in np.unique(heads).tolist():
            shape = self._names[number]
            shape_logits, positions = logits[shape], np.flatnonzero(heads == number)
            if self._by[shape] == "example":
                if shape not in self._whole:
                    self._whole[shape] = np.empty((len(self._task), shape_logits.shape[-1]), np.float32)
                self._whole[shape][examples[positions]] = shape_logits[positions]
                if doubtful:
                    self.odd[examples[positions]] = ~np.isfinite(shape_logits[positions]).all(1)
                continue
            if rows is None:
                rows = runs(batch.of_rows)
            for position in positions.tolist():
                own_rows, piece = rows[position], int(examples[position])
                self._each[piece] = piece_logits = (
                    # a copy: a view would keep the whole batch
                    shape_logits[own_rows.start : own_rows.stop, 0].copy()
                    if self._by[shape] == "row"
                    else np.concatenate([shape_logits[row, : batch.lengths[row]] for row in own_rows])
                )
                if doubtful:
                    self.odd[piece] = not np.isfinite(piece_logits).all()

    def of(self, piece: int) -> Logits | None:
        """Return the logits of one piece; None if it was in no batch."""
        if not self._filled[piece]:
            return None
        whole = self._whole.get(self._names[self._head[piece]])
        return self._each.get(piece) if whole is None else whole[piece]

    def of_task(self, task: int, numbers: NDArray[np.int64]) -> Sequence[Logits]:
        """Return the logits of k examples of one task, [k, C] if it has one output per example."""
        shape = self._heads[task]
        firsts = numbers if self._starts is None else self._starts[numbers]
        if self._by[shape] == "example":
            logits: Sequence[Logits] = self._whole[shape][firsts]  # type: ignore[assignment]
            return logits
        if self._starts is None:
            return [self._each[number] for number in numbers.tolist()]
        ends = self._starts[numbers + 1]
        return [
            _joined([self._each[piece] for piece in range(first, end)])
            for first, end in zip(firsts.tolist(), ends.tolist(), strict=True)
        ]

    def by_example(self) -> Sequence[Logits]:
        """Return the logits of each example, [n]; a slice of one task's examples is [k, C] where it can be.

        Arrays are made when they are read: one per example would need many times the memory of the logits.
        """
        return _ByExample(self)

    def of_example(self, number: int) -> Logits:
        """Return the logits of one example."""
        first, end = (number, number + 1) if self._starts is None else self._starts[number : number + 2]
        pieces = [self.of(piece) for piece in range(int(first), int(end))]
        return _joined([logits for logits in pieces if logits is not None])

    def of_slice(self, numbers: range) -> Sequence[Logits]:
        """Return the logits of consecutive examples, [k, C] if they are of one task with one output each."""
        every = np.arange(numbers.start, numbers.stop, numbers.step)
        tasks = np.unique(self._task[every if self._starts is None else self._starts[every]])
        if len(tasks) == 1:
            return self.of_task(int(tasks[0]), every)
        return [self.of_example(number) for number in numbers]

    @property
    def examples(self) -> int:
        """The number of examples, n."""
        return len(self._task) if self._starts is None else len(self._starts) - 1

    def joined(self, values: list[Logits]) -> list[Logits]:
        """Return the logits of each example, [n], from those of each piece, [p]."""
        if self._starts is None:
            return values
        bounds = self._starts.tolist()
        return [_joined(values[first:end]) for first, end in pairwise(bounds)]

    def of_examples(self, odd: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Return whether any piece of each example is odd, [n], from whether each piece is, [p]."""
        return odd if self._starts is None else np.logical_or.reduceat(odd, self._starts[:-1])


class _ByExample(Sequence[Logits]):
    def __init__(self, logits: AllLogits) -> None:
        self._logits = logits

    def __len__(self) -> int:
        return self._logits.examples

    def __getitem__(self, index: Any) -> Any:
        chosen = range(len(self))[index]
        return self._logits.of_slice(chosen) if isinstance(chosen, range) else self._logits.of_example(chosen)


def _joined(pieces: Sequence[Logits]) -> Logits:
    return pieces[0] if len(pieces) == 1 else np.concatenate(pieces)


@dataclass(eq=False)
class BatchLogits:
    """The logits of one batch, and which examples or pieces they belong to.

    Attributes:
        moving: the logits, by head shape.
        examples: the numbers of the batch's examples.
        of_rows: the number of each row's example; padding rows are left out.
        lengths: the number of tokens of each row.
    """

    moving: HostLogits
    examples: Sequence[int] | NDArray[np.int64]
    of_rows: Sequence[int] | NDArray[np.int64]
    lengths: Sequence[int]


def runs(numbers: Sequence[int] | NDArray[np.int64]) -> list[range]:
    """Return the ranges of equal neighbors: [4, 4, 7] → [0:2, 2:3]."""
    every = np.asarray(numbers)
    ends = [*(np.flatnonzero(every[1:] != every[:-1]) + 1).tolist(), len(every)]
    return [range(first, end) for first, end in zip([0, *ends], ends, strict=False)]
