"""Many tasks on one text: what tasks share of the encoder runs once a text, the rest as one mixed batch.

Of n blocks, the k below the first place where the tasks differ (`weft.model.trunk`) run over the distinct
rows, [U, L]; what they give is handed to the rows of every task, [R, L], over which other blocks and heads
run. Where tasks differ in their heads alone (k = n), a text costs one pass of the encoder,
however many read it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from weft.data.batching.collate import collate, gather, picked
from weft.data.tokens.tokens import Tokens, in_memory
from weft.errors import WeftError
from weft.inference.captured import CapturedModel
from weft.inference.captures import input_names, run_batch
from weft.inference.ladder import FEW, Ladder
from weft.inference.logits import AllLogits, BatchLogits
from weft.inference.precision import PassContext, Precision, precision_context, precision_now
from weft.inference.predict import as_split, plain_form, read_request
from weft.inference.runner import ROWS, answers
from weft.inference.trunk_pass import ROW_OF, TRUNK
from weft.model.threads import in_eval
from weft.model.trunk import Trunk, run_trunk, trunk_depth
from weft.tasks.kinds import KINDS

if TYPE_CHECKING:
    from weft.model.model import Model
    from weft.tasks.kinds.kind import Inputs

MANY = 8
"""How many times `batch_size` a pass above the trunk may have rows: there they are texts times tasks."""


@dataclass(frozen=True)
class _Asked:
    """One task's question about one text: which text, the task's id, and its example among some tokens."""

    text: int
    task: int
    tokens: Tokens
    example: int

    @property
    def rows(self) -> int:
        return len(self.tokens.rows_of(self.example))


def predict_all(
    model: Model,
    texts: Sequence[Any],
    tasks: Sequence[str] | None = None,
    batch_size: int | None = None,
    precision: Precision | None = None,
) -> list[dict[str, dict[str, Any]]]:
    """The answers of many tasks for each text. As with `predict`, several threads may call it at once.

    Args:
        model: the model.
        texts: each what a request of `predict` has beside its task: a text, a pair, (text, [choice, …]),
            words, or a dict with the columns of the tasks' files, or with `text`, or `text_a` and `text_b`.
        tasks: the tasks' names; each must be able to read every text. By default each text is read by all
            tasks that take what it is; a tuple is texts, never words.
        batch_size: texts, or rather their distinct rows, of a pass; by default 64.
        precision: as in `weft.inference.predict`.

    Returns:
        For each text, by the task's name, what `predict` answers to (task, text).
    """
    if batch_size is not None and batch_size < 1:
        raise WeftError(f"batch_size must be at least 1; found {batch_size}")
    if isinstance(texts, str | Mapping):
        raise WeftError(f"texts: expected a list of texts; found {texts!r}: write [{texts!r}]")
    if not isinstance(texts, Iterable):
        raise WeftError(f"texts: expected a list of texts; found {texts!r}: write ['a text', …]")
    if isinstance(tasks, str):
        raise WeftError(f"tasks: expected a list of names; found {tasks!r}: write [{tasks!r}]")
    if tasks is not None and not isinstance(tasks, Iterable):
        raise WeftError(f"tasks: expected a list of names; found {tasks!r}: leave it out for all tasks")
    named = None if tasks is None else list(dict.fromkeys(model.task_id(name) for name in tasks))
    if named == []:
        raise WeftError("tasks: expected at least one task's name; found none")
    inputs = [inputs_of(model, f"text {number}", text, named) for number, text in enumerate(texts, 1)]
    found: list[dict[str, dict[str, Any]]] = [
        {model.tasks[index].name: {} for index in own} for own in inputs
    ]
    in_eval(model)
    inside = precision_context(model, precision)
    asked = _asked(model, inputs)
    with nullcontext() if inside is None else inside():
        for one, logits in _all_logits(model, asked, batch_size, inside):
            task = model.tasks[one.task]
            answer = KINDS[task.kind]().answer(logits, task, one.tokens.example(one.example))
            found[one.text][task.name] = {"task": task.name, **answer}
    return found


def inputs_of(model: Model, where: str, text: Any, named: Sequence[int] | None) -> dict[int, Inputs]:
    """What each task that reads a text has of it, by the task's id.

    Args:
        model: the model.
        where: the beginning of a message.
        text: as in `predict_all`.
        named: the ids of the tasks that are to read it; None: all that can.
    """
    if named is not None:
        return {i: read_request(model.tasks[i], plain_form(model.tasks[i], text), where) for i in named}
    found, last = {}, None
    for index, task in enumerate(model.tasks):
        if isinstance(text, tuple) and KINDS[task.kind].windows == "words":
            continue  # a tuple is texts; words, which could be taken for them, come as a list
        try:
            found[index] = read_request(task, plain_form(task, text), where)
        except WeftError as wrong:
            last = wrong
    if not found:
        raise WeftError(f"{where}: no task of this model can read it: {text!r}\n  for one, {last}")
    return found


def _asked(model: Model, inputs: Sequence[dict[int, Inputs]]) -> list[_Asked]:
    """Every question, tokenized; tasks that make the same rows of the same texts do so once."""
    places: dict[int, list[int]] = {}  # of each task, the texts
    for number, own in enumerate(inputs):
        for index in own:
            places.setdefault(index, []).append(number)
    known: dict[object, Tokens] = {}
    asked = []
    for index, numbers in places.items():
        task = model.tasks[index]
        own = [inputs[number][index] for number in numbers]
        kind = (task.kind, task.apart, task.choices, task.texts, task.stride)
        key = (kind, tuple(own))
        if key not in known:
            known[key] = in_memory(as_split(task, own), model.tokenizer, model.max_length)
        asked += [_Asked(number, index, known[key], place) for place, number in enumerate(numbers)]
    return asked


def _groups(asked: Sequence[_Asked], batch_size: int) -> Iterator[list[_Asked]]:
    """All questions about some texts of like length, whose distinct rows are `batch_size` at the most."""
    of_text: dict[int, list[_Asked]] = {}
    for one in asked:
        of_text.setdefault(one.text, []).append(one)
    longest = {
        text: max(int(one.tokens.lengths[one.example]) for one in own) for text, own in of_text.items()
    }
    group: list[_Asked] = []
    rows = 0
    for text in sorted(of_text, key=longest.__getitem__):
        own = of_text[text]
        distinct = len({_row_key(one.tokens, row) for one in own for row in one.tokens.rows_of(one.example)})
        if group and rows + distinct > batch_size:
            yield group
            group, rows = [], 0
        group += own
        rows += distinct
    if group:
        yield group


def _row_key(tokens: Tokens, row: int) -> tuple[bytes, bytes]:
    types = tokens.types(row)
    return tokens.ids(row).tobytes(), b"" if types is None or not types.any() else types.tobytes()


def _all_logits(
    model: Model, asked: Sequence[_Asked], batch_size: int | None, precision: PassContext | None
) -> Iterator[tuple[_Asked, NDArray[np.float32]]]:
    """The logits of each question: where tasks share no block, by one mixed batch after another."""
    depth = trunk_depth(model, sorted({one.task for one in asked}))
    now = precision_now(model)
    captured = None if now is None else model.captures.of(model, now, exact=precision is not None)
    if depth == 0 and captured is not None:
        listed = [(one.task, one.tokens, one.example) for one in asked]
        yield from zip(asked, answers(model, listed, batch_size, precision=precision), strict=True)
        return
    for group in _groups(asked, batch_size or ROWS):
        if captured is not None and depth:
            # one less: a row may be needed for no example, and makes them the next number of the ladder
            for first, last in _passes([one.rows for one in group], MANY * (batch_size or ROWS) - 1):
                yield from _captured(model, captured, group[first:last], depth)
        else:
            yield from _eager(model, group, batch_size or ROWS)


def _captured(
    model: Model, captured: CapturedModel, asked: Sequence[_Asked], depth: int
) -> Iterator[tuple[_Asked, NDArray[np.float32]]]:
    """The logits of some questions, trunk and all tasks by one captured pass."""
    keys = input_names(model, (one.tokens for one in asked))
    ladder = Ladder(model.longest, coarse=len(asked) <= FEW)
    length = ladder.length(max(int(one.tokens.lengths[one.example]) for one in asked))
    count = sum(one.rows for one in asked)
    rows = ladder.rows(count + ("example" in keys), length, many=True)
    chosen = picked([(one.tokens, one.example) for one in asked])
    batch = gather(chosen, model.pad_id, length, rows, keys)
    task = torch.tensor([one.task for one in asked])
    task = torch.cat([task, task[:1].expand(batch.total - len(task))])[torch.from_numpy(batch.example)]
    distinct, first, row_of = _distinct(batch.inputs)
    # distinct rows are padded by copies of the first
    first = torch.cat([first, first[:1].expand(ladder.rows(distinct, length, many=True) - distinct)])
    shared = ("input_ids", "attention_mask", "token_type_ids")
    below = {TRUNK + name: x[first] for name, x in batch.inputs.items() if name in shared}
    inputs = {**batch.inputs, "task": task, **below, TRUNK + "task": task[first], ROW_OF: row_of}
    moving = run_batch(model, captured, inputs, rows if "example" in keys else None, depth)
    lengths = batch.inputs["attention_mask"].sum(1).tolist()
    heads, ids = [task.head for task in model.tasks], np.array([one.task for one in asked])
    logits = AllLogits(heads, ids, model.answers_by)
    logits.add(BatchLogits(moving, range(len(asked)), chosen.example, lengths))
    logits.finish()
    for number, one in enumerate(asked):
        own = logits.of(number)
        assert own is not None
        yield one, own


@torch.no_grad()
def _eager(
    model: Model, asked: Sequence[_Asked], batch_size: int
) -> Iterator[tuple[_Asked, NDArray[np.float32]]]:
    """The logits of some questions, on the host."""
    device = next(model.parameters()).device
    inputs = collate([(one.tokens, one.example) for one in asked], model.pad_id)
    of_rows = inputs.pop("example", torch.arange(len(asked)))
    task = torch.tensor([one.task for one in asked])[of_rows]
    trunk, row_of = _trunk(model, inputs, task, device)
    for first, last in _passes([one.rows for one in asked], MANY * batch_size):
        rows = (of_rows >= first) & (of_rows < last)
        given = {name: value[rows].to(device) for name, value in inputs.items()}
        if last - first != int(rows.sum()):
            given["example"] = (of_rows[rows] - first).to(device)
        below = None if trunk is None else trunk.of_rows(row_of[rows].to(device))
        output = model.run(**given, task=task[rows], trunk=below)
        logits = [x.numpy() for x in output.on_host().logits]
        yield from zip(asked[first:last], logits, strict=True)


def _trunk(
    model: Model, inputs: Mapping[str, Tensor], task: Tensor, device: torch.device
) -> tuple[Trunk | None, Tensor]:
    """The trunk of the distinct rows, and which of them each row is, [R]; none where nothing is shared."""
    tasks = sorted(set(task.tolist()))
    depth = trunk_depth(model, tasks)
    distinct, first, row_of = _distinct(inputs)
    if depth == 0 or distinct == len(task):
        return None, task
    given = {name: value[first].to(device) for name, value in inputs.items()}
    return run_trunk(model, given, task.new_full((distinct,), tasks[0]), depth), row_of


def _distinct(inputs: Mapping[str, Tensor]) -> tuple[int, Tensor, Tensor]:
    """How many rows differ, where each of them is first, [U], and which of them each row is, [R]."""
    read = [inputs[name] for name in ("input_ids", "attention_mask", "token_type_ids") if name in inputs]
    every: NDArray[np.int64] = torch.cat(read, 1).numpy()
    _, first, row_of = np.unique(every, axis=0, return_index=True, return_inverse=True)
    return len(first), torch.from_numpy(first), torch.from_numpy(row_of.reshape(-1))


def _passes(rows: Sequence[int], most: int) -> Iterator[tuple[int, int]]:
    """Neighbouring questions, the first and the one after the last, of `most` rows at the most."""
    first = total = 0
    for number, own in enumerate(rows):
        if number > first and total + own > most:
            yield first, number
            first, total = number, 0
        total += own
    yield first, len(rows)
