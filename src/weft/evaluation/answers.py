"""Running a model over many examples of any tasks: sorted by length, mixed, a batch at a time."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from weft.data.collate import gather, picked
from weft.evaluation.cuts import Cut, by_rows, by_tokens
from weft.model_threads import in_eval

if TYPE_CHECKING:
    from weft.data.tokens import Tokens
    from weft.model import Model
    from weft.output import Output
    from weft.training.processes import Processes

Run = Callable[..., "Output"]
"""Runs a batch another way than the model itself: called with what `Model.forward` takes, on the host."""
Precision = Callable[[], AbstractContextManager[object]]
"""What a pass runs inside, such as autocast."""

ROWS = 64
"""Rows of a batch on a CPU when nothing is trained."""
AHEAD = 8
"""How many batches a GPU is given before the logits of the first are waited for."""


class Batch(NamedTuple):
    """One batch of many examples.

    Attributes:
        examples: which of the examples they are, E numbers.
        of_rows: the example of each row, by the same numbers, R of them; rows that fill it up left out.
        mask: 1 where a row has a token, [R, L], on the CPU.
        output: what the model gave for them.
    """

    examples: list[int]
    of_rows: list[int]
    mask: Tensor
    output: Output


@torch.no_grad()
def outputs(
    model: Model,
    examples: Sequence[tuple[int, Tokens, int]],
    batch_size: int | None = None,
    layers: bool = False,
    part: tuple[int, int] = (0, 1),
    run: Run | None = None,
    precision: Precision | None = None,
) -> Iterator[Batch]:
    """Run the model over the examples, a batch at a time.

    They are batched by length, so that little is padded, whatever their tasks. The same examples give the
    same batches, and so the same numbers to the last bit.

    Args:
        model: put into eval mode, and left there; see `weft.model_threads.in_eval`.
        examples: (task id, its tokenised examples, which of them).
        batch_size: rows a batch, unless one example has more; by default 64 on a CPU, on a GPU as many as
            have 16,384 token places.
        layers: whether to collect `Output.layers`.
        part: (r, n): of n that run the same call, this is number r and takes every n-th batch. Each runs as
            many, a batch a second time where need be: those that hold parts of the encoder run together.
        run: runs a batch instead of the model; its batches then have few shapes.
        precision: what each pass runs inside; by default nothing, so float32.
    """
    device = next(model.parameters()).device
    in_eval(model)
    if run is None and (batch_size is not None or device.type != "cuda"):
        every = by_rows(examples, batch_size or ROWS)
    else:
        every = by_tokens(examples, model.longest, few=run is not None)
    rank, world = part
    keys = None if run is None else _keys(examples)
    for number in range(rank, -(-len(every) // world) * world, world):
        cut = every[min(number, len(every) - 1)]
        inputs, count, of_rows = _inputs(model, examples, cut, keys)
        further: dict[str, Any] = {"examples": count} if "example" in inputs else {}
        further |= {"layers": True} if layers else {}
        mask = inputs["attention_mask"]
        with nullcontext() if precision is None else precision():
            output = (run or model)(**(inputs if run else _moved(inputs, device)), **further)
        yield Batch(cut.chosen, of_rows, mask, output)


def answers(
    model: Model,
    examples: Sequence[tuple[int, Tokens, int]],
    batch_size: int | None = None,
    processes: Processes | None = None,
    run: Run | None = None,
    precision: Precision | None = None,
) -> list[NDArray[np.float32]]:
    """The logits of each example, in the examples' order, on the host in float32.

    Args:
        model: as in `outputs`.
        examples: as in `outputs`.
        batch_size: as in `outputs`.
        processes: those that share the work, each of which gets all logits; by default this one alone.
        run: as in `outputs`.
        precision: as in `outputs`.
    """
    part = (0, 1) if processes is None else (processes.rank, processes.world)
    found: list[NDArray[np.float32] | None] = [None] * len(examples)
    waiting: deque[_Logits] = deque()
    heads = [task.head for task in model.tasks]
    for batch in outputs(model, examples, batch_size, part=part, run=run, precision=precision):
        waiting.append(_Logits(batch, [heads[examples[e][0]] for e in batch.examples]))
        if len(waiting) > AHEAD:
            waiting.popleft().put(found)
    for last in waiting:
        last.put(found)
    for other in [] if processes is None else processes.gathered(found):
        found = [mine if theirs is None else theirs for mine, theirs in zip(found, other, strict=True)]
    return [logits for logits in found if logits is not None]


class _Logits:
    """A batch's logits on their way to the host, which does not wait for them until they are put."""

    def __init__(self, batch: Batch, heads: list[str]) -> None:
        self._batch, self._heads = batch._replace(output=None), heads  # type: ignore[arg-type]
        output = batch.output
        self._by = output.answers_by
        own = {shape: output.by_shape[shape].float() for shape in dict.fromkeys(heads)}
        cuda = next(iter(own.values())).device.type == "cuda"
        self._moving = {shape: x.to("cpu", non_blocking=cuda) for shape, x in own.items()}
        self._there: torch.cuda.Event | None = None
        if cuda:
            self._there = torch.cuda.Event()
            self._there.record()

    def put(self, found: list[NDArray[np.float32] | None]) -> None:
        """Give each example its own, once they are there."""
        if self._there is not None:
            self._there.synchronize()
        # a copy: what the device writes into is dear
        logits = {shape: np.array(x.numpy()) for shape, x in self._moving.items()}
        rows = _runs(self._batch.of_rows) if any(self._by[shape] != "example" for shape in logits) else []
        lengths = self._batch.mask.sum(1).tolist() if rows else []
        for place, (example, shape) in enumerate(zip(self._batch.examples, self._heads, strict=True)):
            own, by = logits[shape], self._by[shape]
            if by == "example":
                found[example] = own[place]
            elif by == "row":
                found[example] = own[rows[place].start : rows[place].stop, 0]
            else:
                found[example] = np.concatenate([own[r, : lengths[r]] for r in rows[place]])


def _runs(of_rows: list[int]) -> list[range]:
    """The rows of each example, which follow on each other."""
    numbers = np.array(of_rows)
    ends = [*(np.flatnonzero(numbers[1:] != numbers[:-1]) + 1).tolist(), len(numbers)]
    return [range(first, end) for first, end in zip([0, *ends], ends, strict=False)]


def _inputs(
    model: Model, examples: Sequence[tuple[int, Tokens, int]], cut: Cut, keys: Sequence[str] | None
) -> tuple[dict[str, Tensor], int, list[int]]:
    """What the forward pass takes, how many examples that is, and which of them each row is of."""
    chosen = picked([examples[e][1:] for e in cut.chosen])
    found = gather(chosen, model.pad_id, cut.length, cut.rows, keys)
    task = np.array([examples[e][0] for e in cut.chosen])
    # rows that fill a batch up have the task of the first
    of_examples = np.concatenate([task, np.full(found.total - len(task), task[0])])
    inputs = {**found.inputs, "task": torch.from_numpy(of_examples[found.example])}
    return inputs, found.total, np.array(cut.chosen)[chosen.example].tolist()


def _keys(examples: Sequence[tuple[int, Tokens, int]]) -> list[str]:
    """The inputs that any of the examples needs beside ids and mask."""
    splits = list({id(tokens): tokens for _, tokens, _ in examples}.values())
    found = [
        *(["token_type_ids"] if any(tokens.has_types for tokens in splits) else []),
        *(["marks"] if any(tokens.has_marks for tokens in splits) else []),
    ]
    return found if all(tokens.one_row_each for tokens in splits) else [*found, "example"]


def _moved(inputs: dict[str, Tensor], device: torch.device) -> dict[str, Tensor]:
    """The inputs on a device, without waiting for what it is doing."""
    if device.type != "cuda":
        return {name: x.to(device) for name, x in inputs.items()}
    moved = {name: x.pin_memory().to(device, non_blocking=True) for name, x in inputs.items()}
    task = inputs["task"]
    if bool((task == task[0]).all()):
        moved["task"] = task  # where the model can see that all are one
    return moved
