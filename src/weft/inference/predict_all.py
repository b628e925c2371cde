"""`predict_all`: many tasks on one text. The blocks that tasks share run once per text.

The lowest k of n blocks compute the same for all tasks (`weft.model.trunk`) and run over the distinct rows,
[U, L]. Their output is gathered for the rows of every task, [R, L], and the upper blocks and the heads run
over these as one mixed batch. If tasks differ only in their heads (k = n), a text costs one pass of the
encoder, for any number of tasks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from weft.data.batching.collate import collate, gather, picked
from weft.data.readers.columns import read_columns
from weft.data.readers.problem import show
from weft.errors import WeftError
from weft.inference.batches import ROWS
from weft.inference.calls import dicts_of, frame_of, listed
from weft.inference.captured import CapturedModel
from weft.inference.captures import input_names, run_batch
from weft.inference.finite import check_logits
from weft.inference.ladder import FEW, Ladder
from weft.inference.logits import AllLogits, BatchLogits
from weft.inference.precision import PassContext, Precision, precision_context, precision_now
from weft.inference.predict import plain_form, read_request
from weft.inference.queries import Query, groups, in_pieces, joined, queries_of
from weft.inference.runner import answers
from weft.inference.trunk_pass import ROW_OF, TRUNK
from weft.model.threads import in_eval
from weft.model.trunk import Trunk, run_trunk, trunk_depth
from weft.tasks.kinds import KINDS

if TYPE_CHECKING:
    from weft.model.model import Model
    from weft.tasks.kinds.kind import Inputs
    from weft.tasks.task import Task

MANY = 8
"""A pass above the trunk has at most this many times `batch_size` rows: its rows are texts × tasks."""


def predict_all(
    model: Model,
    texts: Any,
    tasks: str | Sequence[str] | None = None,
    batch_size: int | None = None,
    precision: Precision | None = None,
) -> Any:
    """Return the answers of many tasks for each text. As with `predict`, several threads may call it at once.

    Args:
        model: the model.
        texts: the inputs, as in a request of `predict` without its task: a text, a pair, (text, [choice, …]),
            words, or a dict with the columns of the tasks' files, or with `text`, or `text_a` and `text_b`. A
            column of a data frame, or a data frame with such columns, are lists of them. A string or a dict
            alone is one text.
        tasks: the names of the tasks, or one name; each must be able to read every text. By default each text
            is read by all tasks that take an input of its form. A tuple means texts, never words.
        batch_size: distinct rows per pass; by default 64.
        precision: as in `weft.inference.predict`.

    Returns:
        One dict per text: for each task, by name, the answer of `predict` to (task, text). For one text that
        is not in a list, its dict alone.
    """
    if batch_size is not None and batch_size < 1:
        raise WeftError(f"batch_size must be at least 1; found {batch_size}")
    if isinstance(texts, str | Mapping):
        return predict_all(model, [texts], tasks, batch_size, precision)[0]
    if not isinstance(texts, Iterable) and frame_of(texts) is None:
        raise WeftError(f"texts: expected a list of texts; found {texts!r}: write ['a text', …]")
    tasks = [tasks] if isinstance(tasks, str) else tasks
    if tasks is not None and not isinstance(tasks, Iterable):
        raise WeftError(f"tasks: expected a list of names; found {tasks!r}: leave it out for all tasks")
    named = None if tasks is None else list(dict.fromkeys(model.task_id(name) for name in tasks))
    if named == []:
        raise WeftError("tasks: expected at least one task's name; found none")
    inputs = [
        inputs_of(model.tasks, f"text {number}", text, named)
        for number, text in enumerate(_listed(model, texts), 1)
    ]
    return answers_of_inputs(model, inputs, batch_size, precision)


def answers_of_inputs(
    model: Model,
    inputs: Sequence[dict[int, Inputs]],
    batch_size: int | None = None,
    precision: Precision | None = None,
    tell_truncated: bool = False,
) -> list[dict[str, dict[str, Any]]]:
    """Return the answers of many tasks for texts that were read.

    Args:
        model: the model.
        inputs: for each text, the input of each task that reads it; see `inputs_of`.
        batch_size: as in `predict_all`.
        precision: as in `predict_all`.
        tell_truncated: whether each answer has a field `truncated`: a part of the text was left out.
    """
    results: list[dict[str, dict[str, Any]]] = [
        {model.tasks[index].name: {} for index in by_task} for by_task in inputs
    ]
    in_eval(model)
    inside = precision_context(model, precision)
    queries = queries_of(model, inputs)
    odd = np.zeros(len(queries), bool)
    with nullcontext() if inside is None else inside():
        for number, logits in joined(_all_logits(model, queries, batch_size, inside)):
            query = queries[number]
            task = model.tasks[query.task]
            odd[number] = not np.isfinite(logits).all()
            if not odd[number]:
                answer = KINDS[task.kind]().answer(logits, task, query.tokens.example(query.example))
                results[query.text][task.name] = {"task": task.name, **answer}
                if tell_truncated:
                    cut = query.tokens.is_truncated(query.example)
                    results[query.text][task.name]["truncated"] = cut
    check_logits(model.tasks, np.array([query.task for query in queries]), odd)
    return results


def _listed(model: Model, texts: Iterable[Any]) -> list[Any]:
    """Return the inputs as a list; those of a data frame as dicts."""
    rows = frame_of(texts)
    if rows is None:
        return listed(texts)
    columns = ["text", "text_a", "text_b", "choices"]
    return dicts_of(rows, [*columns, *(name for task in model.tasks for name in read_columns(task))])


def inputs_of(tasks: Sequence[Task], where: str, text: Any, named: Sequence[int] | None) -> dict[int, Inputs]:
    """Return the encoder's input of each task that reads a text, by task id.

    Args:
        tasks: the tasks of the model.
        where: the beginning of an error message.
        text: as in `predict_all`.
        named: the ids of the tasks that must read the text; None: all tasks that can.
    """
    if named is not None:
        return {i: read_request(tasks[i], plain_form(tasks[i], text), where) for i in named}
    inputs, last = {}, None
    for index, task in enumerate(tasks):
        if isinstance(text, tuple) and KINDS[task.kind].windows == "words":
            continue  # a tuple means texts; words, which look the same, come as a list
        try:
            inputs[index] = read_request(task, plain_form(task, text), where)
        except WeftError as wrong:
            last = wrong
    if not inputs:
        raise WeftError(f"{where}: no task of this model can read it: {show(text)}\n  for example, {last}")
    return inputs


def _all_logits(
    model: Model, queries: Sequence[Query], batch_size: int | None, precision: PassContext | None
) -> Iterator[tuple[Query, NDArray[np.float32]]]:
    """Yield the logits of each query, or of its pieces; if tasks share no block, from one mixed batch after
    another.
    """
    depth = trunk_depth(model, sorted({query.task for query in queries}))
    now = precision_now(model)
    captured = None if now is None else model.captures.of(model, now, exact=precision is not None)
    if depth == 0 and captured is not None:
        listed = [(query.task, query.tokens, query.example) for query in queries]
        yield from zip(queries, answers(model, listed, batch_size, precision=precision), strict=True)
        return
    for group in groups(in_pieces(model, queries, batch_size or ROWS), batch_size or ROWS):
        if captured is not None and depth:
            # minus 1: a spare row for padding may raise the number of rows to the next step of the ladder
            for first, last in _passes([query.rows for query in group], MANY * (batch_size or ROWS) - 1):
                yield from _captured(model, captured, group[first:last], depth)
        else:
            yield from _eager(model, group, batch_size or ROWS)


def _captured(
    model: Model, captured: CapturedModel, queries: Sequence[Query], depth: int
) -> Iterator[tuple[Query, NDArray[np.float32]]]:
    """Yield the logits of some queries; one captured pass runs the trunk and all tasks."""
    keys = input_names(model, (query.tokens for query in queries))
    ladder = Ladder(model.longest, coarse=len(queries) <= FEW)
    length = ladder.length(max(int(query.tokens.lengths[query.example]) for query in queries))
    count = sum(query.rows for query in queries)
    rows = ladder.rows(count + ("example" in keys), length, many=True)
    chosen = picked([(query.tokens, query.example) for query in queries])
    batch = gather(chosen, model.pad_id, length, rows, keys)
    task = torch.tensor([query.task for query in queries])
    task = torch.cat([task, task[:1].expand(batch.total - len(task))])[torch.from_numpy(batch.example)]
    distinct, first, row_of = _distinct(batch.inputs)
    # distinct rows are padded with copies of the first
    first = torch.cat([first, first[:1].expand(ladder.rows(distinct, length, many=True) - distinct)])
    shared = ("input_ids", "attention_mask", "token_type_ids")
    below = {TRUNK + name: x[first] for name, x in batch.inputs.items() if name in shared}
    inputs = {**batch.inputs, "task": task, **below, TRUNK + "task": task[first], ROW_OF: row_of}
    moving = run_batch(model, captured, inputs, rows if "example" in keys else None, depth)
    lengths = batch.inputs["attention_mask"].sum(1).tolist()
    ids = np.array([query.task for query in queries])
    heads = {index: model.tasks[index].head for index in np.unique(ids).tolist()}
    logits = AllLogits(heads, ids, model.answers_by)
    logits.add(BatchLogits(moving, range(len(queries)), chosen.example, lengths))
    logits.finish()
    for number, query in enumerate(queries):
        query_logits = logits.of(number)
        assert query_logits is not None
        yield query, query_logits


@torch.no_grad()
def _eager(
    model: Model, queries: Sequence[Query], batch_size: int
) -> Iterator[tuple[Query, NDArray[np.float32]]]:
    """Yield the logits of some queries, on the host."""
    device = next(model.parameters()).device
    inputs = collate([(query.tokens, query.example) for query in queries], model.pad_id)
    of_rows = inputs.pop("example", torch.arange(len(queries)))
    task = torch.tensor([query.task for query in queries])[of_rows]
    trunk, row_of = _trunk(model, inputs, task, device)
    for first, last in _passes([query.rows for query in queries], MANY * batch_size):
        rows = (of_rows >= first) & (of_rows < last)
        batch = {name: value[rows].to(device) for name, value in inputs.items()}
        if last - first != int(rows.sum()):
            batch["example"] = (of_rows[rows] - first).to(device)
        below = None if trunk is None else trunk.of_rows(row_of[rows].to(device))
        output = model.run(**batch, task=task[rows], trunk=below)
        logits = [x.numpy() for x in output.on_host().logits]
        yield from zip(queries[first:last], logits, strict=True)


def _trunk(
    model: Model, inputs: Mapping[str, Tensor], task: Tensor, device: torch.device
) -> tuple[Trunk | None, Tensor]:
    """Return the trunk of the distinct rows, if anything is shared, and the distinct row of each row, [R]."""
    tasks = sorted(set(task.tolist()))
    depth = trunk_depth(model, tasks)
    distinct, first, row_of = _distinct(inputs)
    if depth == 0 or distinct == len(task):
        return None, task
    batch = {name: value[first].to(device) for name, value in inputs.items()}
    return run_trunk(model, batch, task.new_full((distinct,), tasks[0]), depth), row_of


def _distinct(inputs: Mapping[str, Tensor]) -> tuple[int, Tensor, Tensor]:
    """Return the number U of distinct rows, the index of each, [U], and the distinct row of each row, [R]."""
    read = [inputs[name] for name in ("input_ids", "attention_mask", "token_type_ids") if name in inputs]
    every: NDArray[np.int64] = torch.cat(read, 1).numpy()
    _, first, row_of = np.unique(every, axis=0, return_index=True, return_inverse=True)
    return len(first), torch.from_numpy(first), torch.from_numpy(row_of.reshape(-1))


def _passes(rows: Sequence[int], most: int) -> Iterator[tuple[int, int]]:
    """Yield ranges (first, end) of consecutive queries with at most `most` rows."""
    first = total = 0
    for number, count in enumerate(rows):
        if number > first and total + count > most:
            yield first, number
            first, total = number, 0
        total += count
    yield first, len(rows)
