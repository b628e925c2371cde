"""Running a model over many examples of any tasks: sorted by length, mixed, a batch at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from torch import Tensor

from weft.data.collate import collate

if TYPE_CHECKING:
    from weft.data.tokens import Tokens
    from weft.model import Model
    from weft.output import Output
    from weft.training.processes import Processes

ROWS = 64
"""Rows of a batch when nothing is trained."""


class Batch(NamedTuple):
    """One batch of many examples.

    Attributes:
        examples: which of the examples they are, E numbers.
        of_rows: the example of each row, by the same numbers, R of them.
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
    batch_size: int = ROWS,
    layers: bool = False,
    part: tuple[int, int] = (0, 1),
) -> Iterator[Batch]:
    """Run the model over the examples, a batch at a time.

    They are batched by length, so that little is padded, whatever their tasks. The same examples give the
    same batches, and so the same numbers to the last bit.

    Args:
        model: run in eval mode; its mode is put back.
        examples: (task id, its tokenised examples, which of them).
        batch_size: rows a batch, unless one example has more.
        layers: whether to collect `Output.layers`.
        part: (r, n): of n that run the same call, this is number r and takes every n-th batch. Each runs as
            many, a batch a second time where need be: those that hold parts of the encoder run together.
    """
    device = next(model.parameters()).device
    training = model.training
    model.eval()
    try:
        every = list(_batches(examples, batch_size))
        rank, world = part
        for number in range(rank, -(-len(every) // world) * world, world):
            chosen = every[min(number, len(every) - 1)]
            inputs = collate([examples[e][1:] for e in chosen], model.pad_id)
            local = inputs.get("example", torch.arange(len(chosen)))
            task = torch.tensor([examples[e][0] for e in chosen])[local]
            output = model(**{k: v.to(device) for k, v in inputs.items()}, task=task, layers=layers)
            of_rows = [chosen[e] for e in local.tolist()]
            yield Batch(chosen, of_rows, inputs["attention_mask"], output)
    finally:
        model.train(training)


def _batches(examples: Sequence[tuple[int, Tokens, int]], batch_size: int) -> Iterator[list[int]]:
    """The examples in the order of their lengths, so many that they have `batch_size` rows at the most."""
    lengths = np.array([tokens.lengths[i] for _, tokens, i in examples])
    chosen: list[int] = []
    rows = 0
    for number in np.argsort(lengths, kind="stable").tolist():
        _, tokens, i = examples[number]
        own = len(tokens.rows_of(i))
        if chosen and rows + own > batch_size:
            yield chosen
            chosen, rows = [], 0
        chosen.append(number)
        rows += own
    if chosen:
        yield chosen


def answers(
    model: Model,
    examples: Sequence[tuple[int, Tokens, int]],
    batch_size: int = ROWS,
    processes: Processes | None = None,
) -> list[Tensor]:
    """The logits of each example, in the examples' order, on the CPU in float32.

    Args:
        model: as in `outputs`.
        examples: as in `outputs`.
        batch_size: as in `outputs`.
        processes: those that share the work, each of which gets all logits; by default this one alone.
    """
    part = (0, 1) if processes is None else (processes.rank, processes.world)
    found: list[Tensor | None] = [None] * len(examples)
    for batch in outputs(model, examples, batch_size, part=part):
        # one example at a time would wait for the device thousands of times
        for example, logits in zip(batch.examples, batch.output.on_host().logits, strict=True):
            found[example] = logits
    for other in [] if processes is None else processes.gathered(found):
        found = [mine if theirs is None else theirs for mine, theirs in zip(found, other, strict=True)]
    return [logits for logits in found if logits is not None]
