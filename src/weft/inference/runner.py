"""Running a model over many examples of any tasks, in length-bucketed batches."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from weft.data.batching.collate import gather
from weft.inference.batches import OVERHEAD, POSITIONS, Cut, by_cost, by_rows, by_tokens
from weft.inference.captured import USES, CapturedModel
from weft.inference.captures import input_names, run_batch
from weft.inference.examples import Examples, Listed
from weft.inference.finite import check_logits
from weft.inference.ladder import in_two_ways
from weft.inference.logits import AllLogits, BatchLogits, HostLogits, Reader
from weft.inference.pieces import in_pieces
from weft.inference.precision import PassContext, precision_now
from weft.model.threads import in_eval

if TYPE_CHECKING:
    from weft.model.model import Model
    from weft.model.output import Output
    from weft.utils.processes import Processes

AHEAD = 8
"""How many batches are queued on a GPU before the host waits for the logits of the first."""


class Batch(NamedTuple):
    """One batch of many examples.

    Attributes:
        examples: the numbers of the batch's examples, [E].
        of_rows: the number of each row's example, [R]; padding rows are left out.
        mask: 1 where a row has a token, [R, L], on the CPU.
        output: the model's output.
    """

    examples: list[int]
    of_rows: list[int]
    mask: Tensor
    output: Output


@torch.no_grad()
def outputs(
    model: Model,
    examples: Listed | Examples,
    batch_size: int | None = None,
    layers: bool = False,
    part: tuple[int, int] = (0, 1),
    precision: PassContext | None = None,
) -> Iterator[Batch]:
    """Run the model over the examples, one batch at a time.

    Examples are batched by length, whatever their tasks, so that there is little padding. The same examples
    give the same batches, and therefore bit-identical outputs.

    Args:
        model: put into eval mode, and left there; see `weft.model.threads.in_eval`.
        examples: tuples of task id, tokenized split and index in the split.
        batch_size: rows per batch, unless one example has more; by default batches have at most 4,096 token
            positions on a CPU and 16,384 on a GPU.
        layers: whether to collect `Output.layers`.
        part: (r, n): this is process r of n that make the same call, and runs every n-th batch. All run
            equally many batches, if necessary one of them twice: processes with a sharded encoder must run
            together.
        precision: makes the context of each pass, such as autocast; by default none, that is float32.
    """
    device = next(model.parameters()).device
    in_eval(model)
    examples = examples if isinstance(examples, Examples) else Examples.of(examples)
    if batch_size is not None:
        every = by_rows(examples, batch_size)
    elif device.type == "cuda":
        every = by_tokens(examples, model.longest)
    else:
        every = by_cost(examples, OVERHEAD, POSITIONS)
    rank, world = part
    for number in range(rank, -(-len(every) // world) * world, world):
        cut = every[min(number, len(every) - 1)]
        inputs, count, of_rows = _inputs(model, examples, cut)
        further: dict[str, Any] = {"examples": count} if "example" in inputs else {}
        further |= {"layers": True} if layers else {}
        mask = inputs["attention_mask"]
        with nullcontext() if precision is None else precision():
            output = model(**_moved(inputs, device), **further)
        yield Batch(np.asarray(cut.chosen).tolist(), of_rows.tolist(), mask, output)


def answers(
    model: Model,
    examples: Listed | Examples,
    batch_size: int | None = None,
    processes: Processes | None = None,
    precision: PassContext | None = None,
    capture: Literal["auto", "always"] = "auto",
) -> Sequence[NDArray[np.float32]]:
    """Return the logits of each example, in the order of the examples, on the host in float32.

    A slice of the result is one array, [k, C], if its examples are of one task with one output per example.

    On a GPU, passes run as CUDA graphs if that is faster; see `CapturedModel.is_warm` for the rule.

    Args:
        model: as in `outputs`.
        examples: as in `outputs`.
        batch_size: as in `outputs`.
        processes: the processes that share the work; each gets all logits. By default this process alone.
        precision: as in `outputs`.
        capture: `always` captures every shape on first use, so that outputs do not depend on earlier calls.

    Raises:
        NotFinite: logits of an example are NaN or infinite; all processes raise it.
    """
    listed = examples if isinstance(examples, Examples) else Examples.of(examples)
    filled = all_logits(model, listed, batch_size, processes, precision, capture, AHEAD).finish()
    if processes is None or processes.world == 1:
        check_logits(model.tasks, listed.task, filled.of_examples(filled.odd))
        return filled.by_example()
    merged, odd = [filled.of(piece) for piece in range(len(filled))], filled.odd
    for gathered, remote_odd in processes.gathered((merged, odd)):
        merged = [local if remote is None else remote for local, remote in zip(merged, gathered, strict=True)]
        odd = odd | remote_odd
    check_logits(model.tasks, listed.task, filled.of_examples(odd))
    return filled.joined([logits for logits in merged if logits is not None])


def all_logits(
    model: Model,
    examples: Examples,
    batch_size: int | None = None,
    processes: Processes | None = None,
    precision: PassContext | None = None,
    capture: Literal["auto", "always"] = "auto",
    ahead: int | None = None,
) -> AllLogits:
    """Return the logits of this process's share of the examples; some may still be on their way to the host.

    Args:
        model: as in `answers`.
        examples: the examples to run.
        batch_size: as in `answers`.
        processes: as in `answers`.
        precision: as in `answers`.
        capture: as in `answers`.
        ahead: how many batches are queued on a GPU before the host waits for the first; None: all.
    """
    pieces = in_pieces(model, examples, batch_size)
    starts = None if pieces is None else pieces.starts
    examples = examples if pieces is None else pieces.examples
    heads = {index: model.tasks[index].head for index in np.unique(examples.task).tolist()}
    logits = AllLogits(heads, examples.task, model.answers_by, starts)
    for batch in batches(model, examples, batch_size, processes, precision, capture):
        logits.add(batch, ahead)
    return logits


def batches(
    model: Model,
    examples: Examples,
    batch_size: int | None = None,
    processes: Processes | None = None,
    precision: PassContext | None = None,
    capture: Literal["auto", "always"] = "auto",
    read: Reader | None = None,
) -> Iterator[BatchLogits]:
    """Yield the logits of this process's share of the examples, batch by batch.

    Args:
        model: as in `answers`.
        examples: the examples to run.
        batch_size: as in `answers`.
        processes: as in `answers`.
        precision: as in `answers`.
        capture: as in `answers`.
        read: returns the tensors to take from each output instead of its logits.
    """
    if not len(examples):
        return
    in_eval(model)
    alone = processes is None or processes.world == 1
    with nullcontext() if precision is None else precision():
        now = precision_now(model)
    captured = None
    if alone and now is not None:
        captured = model.captures.of(model, now, exact=precision is not None)
    if captured is not None:
        yield from _captured(model, captured, examples, batch_size, capture == "always", read)
        return
    part = (0, 1) if processes is None else (processes.rank, processes.world)
    for batch in outputs(model, examples, batch_size, part=part, precision=precision):
        if read is None:
            moving = HostLogits.of(_of_used_heads(model, batch, examples))
        else:  # as heads read: in the precision of the pass
            with torch.no_grad(), nullcontext() if precision is None else precision():
                moving = HostLogits.of(read(batch.output))
        yield BatchLogits(moving, batch.examples, batch.of_rows, batch.mask.sum(1).tolist())


def _of_used_heads(model: Model, batch: Batch, examples: Examples) -> dict[str, Tensor]:
    """Return the logits of the head shapes that the batch's examples use."""
    tasks = np.unique(examples.task[batch.examples]).tolist()
    shapes = dict.fromkeys(model.tasks[task].head for task in tasks)
    return {shape: batch.output.by_shape[shape] for shape in shapes}


def _captured(
    model: Model,
    captured: CapturedModel,
    examples: Examples,
    most: int | None,
    always: bool,
    read: Reader | None = None,
) -> Iterator[BatchLogits]:
    """Yield the logits of each batch: captured where its shape is warm, else eager; long rows eager."""
    keys = input_names(model, examples.splits)
    all_captured = always or captured.compiled
    overhead = captured.overhead if most is None else None  # else batches have shapes of their own
    eager, cuts = in_two_ways(examples, model.longest, most, "example" in keys, all_captured, overhead)
    for cut in eager:
        inputs, count, of_rows = _inputs(model, examples, cut, keys)
        moving = captured.eager_logits(inputs, count if "example" in inputs else None, read=read)
        yield BatchLogits(moving, cut.chosen, of_rows, inputs["attention_mask"].sum(1).tolist())
    soon = Counter((cut.rows, cut.length) for cut in cuts)
    for cut in cuts:
        inputs, _, of_rows = _inputs(model, examples, cut, keys)
        lengths = inputs["attention_mask"].numpy().sum(1).tolist()
        # a graph has a fixed number of examples: as many as rows, though the last ones may be empty
        count = cut.rows if "example" in inputs else None
        coming = USES if always else soon[cut.rows, cut.length]
        moving = run_batch(model, captured, inputs, count, soon=coming, read=read)
        soon[cut.rows, cut.length] -= 1
        yield BatchLogits(moving, cut.chosen, of_rows, lengths)


def _inputs(
    model: Model, examples: Examples, cut: Cut, keys: Sequence[str] | None = None
) -> tuple[dict[str, Tensor], int, NDArray[np.int64]]:
    """Return the inputs of a forward pass, their number of examples, and the example of each row."""
    numbers = np.asarray(cut.chosen)
    chosen = examples.picked(numbers)
    batch = gather(chosen, model.pad_id, cut.length, cut.rows, keys)
    task = examples.task[numbers]
    # padding rows have the task of the first example
    of_examples = np.concatenate([task, np.full(batch.total - len(task), task[0])])
    inputs = {**batch.inputs, "task": torch.from_numpy(of_examples[batch.example])}
    return inputs, batch.total, numbers[chosen.example]


def _moved(inputs: dict[str, Tensor], device: torch.device) -> dict[str, Tensor]:
    """Copy the inputs to a device without synchronizing with it."""
    if device.type != "cuda":
        return {name: x.to(device) for name, x in inputs.items()}
    moved = {name: x.pin_memory().to(device, non_blocking=True) for name, x in inputs.items()}
    task = inputs["task"]
    if bool((task == task[0]).all()):
        moved["task"] = task  # stays on the host, where the model can see that all rows have one task
    return moved
