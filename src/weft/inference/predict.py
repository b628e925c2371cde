"""`predict`: answer requests of any mix of tasks with labels, numbers or pieces of text."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from weft.data.readers.columns import column_values, plain_text, plain_texts, read_columns
from weft.data.readers.problem import show
from weft.data.readers.table import Table
from weft.errors import WeftError
from weft.inference.calls import check_requests
from weft.inference.finite import check_logits
from weft.inference.limits import check_length, most_characters
from weft.inference.logits import AllLogits
from weft.inference.precision import Precision, precision_context
from weft.inference.runner import all_logits
from weft.inference.slab import Slab, tokenize_inputs
from weft.tasks.kinds import KINDS
from weft.tasks.kinds.kind import ColumnValues, Inputs

if TYPE_CHECKING:
    from weft.model.model import Model
    from weft.tasks.task import Task

T = TypeVar("T")

Request = tuple[str, Any]
"""The name of a task and its input: a text, a pair of texts, or the columns of a row by name."""

QUEUED = 32
"""How many batches are queued on a GPU before the host waits for the logits of the first."""

SLAB = 4096
"""How many requests are tokenized at once: enough for length-bucketed batches, and little memory."""


def predict(
    model: Model,
    requests: Iterable[Request],
    batch_size: int | None = None,
    precision: Precision | None = None,
) -> list[dict[str, Any]]:
    """Answer each request, in the order of the requests. Tasks may be mixed freely.

    Several threads may call it on one model at once. A model in training mode is put into eval mode and left
    there: call `model.train()` before you continue training.

    Requests are tokenized in a second thread while the model answers the previous ones. On a GPU, passes run
    as CUDA graphs if that is faster (`CapturedModel.is_warm` has the rule; `Model.capture` prepares them).

    Example:
        >>> model.predict([("rte", ("It rains.", "It is wet.")), ("cola", "Cats sleeps.")])

    Args:
        model: the model.
        requests: (task, text), (task, (text, text)), (task, (text, [choice, …])) for `choose` and `rank`,
            (task, [word, …]) for `tag`, or (task, {column: value}) with the columns of the task's files.
        batch_size: maximum rows per pass; by default 4,096 token positions on a CPU, and 16,384 on a GPU.
        precision: `float32` or `bf16`; by default the precision passed to `Model.capture`, else float32.

    Returns:
        One dict per request: `task`, and the fields of its kind: `label` with `probabilities` (classify,
        marked), `labels` (multilabel), `value` (regress, similarity), `answer` with `start` and `end` (span),
        `tags` and `entities` (tag), `choice` (choose), `order` (rank).

    Raises:
        NotFinite: outputs of the model are NaN or infinite; no answer contains such a number.
    """
    if batch_size is not None and batch_size < 1:
        raise WeftError(f"batch_size must be at least 1; found {batch_size}")
    check_requests(model, requests)
    requests = requests if isinstance(requests, list | tuple) else list(requests)
    inside = precision_context(model, precision)
    answers: list[dict[str, Any]] = []
    before: tuple[Slab, AllLogits] | None = None
    for slab in ahead(lambda which: tokenized(model, requests, which), slabs(len(requests))):
        # the GPU works on these requests while the host decodes the answers to the previous ones
        logits = all_logits(model, slab.examples, batch_size, precision=inside, ahead=QUEUED)
        if before is not None:
            answers += answered(model, *before)
        before = slab, logits
    return answers if before is None else answers + answered(model, *before)


def slabs(count: int) -> list[range]:
    """Ranges of requests that are tokenized together. The first is small, so that the model starts early."""
    first = min(count, SLAB if count <= SLAB else SLAB // 4)
    starts = range(first, count, SLAB)
    return [range(first)] * (count > 0) + [range(start, min(start + SLAB, count)) for start in starts]


def ahead(work: Callable[[range], T], slabs: Sequence[range]) -> Iterator[T]:
    """Yield the results in order. A second thread computes the next result while the caller uses this one."""
    if len(slabs) <= 1:
        yield from map(work, slabs)
        return
    with ThreadPoolExecutor(1) as pool:
        coming = pool.submit(work, slabs[0])
        for slab in [*slabs[1:], None]:
            ready = coming.result()
            if slab is not None:
                coming = pool.submit(work, slab)
            yield ready


def tokenized(model: Model, requests: Sequence[Request], which: range) -> Slab:
    """Tokenize some of the requests; those of one task are tokenized together."""
    readers = Readers(model)
    numbered = enumerate(requests[which.start : which.stop], which.start)
    return tokenize_inputs(model, [readers.read(number, request) for number, request in numbered])


class Readers:
    """Reads requests. Plain ASCII texts, which are the common case, take a fast path."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self._ids = {task.name: number for number, task in enumerate(model.tasks)}
        self._plain = [plain_texts(task) for task in model.tasks]
        self._most = most_characters() // 2  # a pair may have twice as many

    def read(self, number: int, request: Request) -> tuple[int, Inputs]:
        """Return the id of a request's task and the input of the encoder."""
        if type(request) is tuple and len(request) == 2:
            name, value = request
            index = self._ids.get(name) if type(name) is str else None
            if index is not None:
                count = self._plain[index]
                texts = value if type(value) is tuple else (value,)
                if 0 < count == len(texts) and (inputs := plain_inputs(texts, self._most)) is not None:
                    return index, inputs
        return _checked(self._model, number, request)


def plain_inputs(texts: tuple[Any, ...], most: int) -> Inputs | None:
    """The input of texts that need no further check; None if they need one.

    Args:
        texts: what a client sent.
        most: the most characters of each text.
    """
    for text in texts:
        if type(text) is not str or not text.isascii() or len(text) > most or not text or text.isspace():
            return None
    return Inputs(texts)


def answered(model: Model, slab: Slab, logits: AllLogits) -> list[dict[str, Any]]:
    """Return the answer to each request, in order. Those of tasks with equal answers are decoded together."""
    logits.finish()
    check_logits(model.tasks, slab.examples.task, logits.of_examples(logits.odd))
    ordered: list[Any] = [None] * len(slab.examples)
    of_example = slab.examples.task.tolist()
    for index, numbers in slab.examples.of_each_task(model.captures.facts(model.tasks).alike):
        task = model.tasks[index]
        first = of_example[numbers[0]]  # a task with examples here: its tokens hold those of all of these
        examples = slab.tokens[first].examples(slab.examples.index[numbers].tolist())
        answers = KINDS[task.kind]().answers(logits.of_task(first, numbers), task, examples)
        for number, answer in zip(numbers.tolist(), answers, strict=True):
            ordered[number] = {"task": model.tasks[of_example[number]].name, **answer}
    return ordered


def _checked(model: Model, number: int, request: Request) -> tuple[int, Inputs]:
    where = f"request {number + 1}"
    if not isinstance(request, list | tuple) or len(request) != 2:
        raise WeftError(f"{where}: expected (task, text) or (task, (text, text)); found {show(request)}")
    name, value = request
    try:
        index = model.task_id(name)
    except WeftError as wrong:
        raise WeftError(f"{where}: {wrong}") from None
    return index, read_request(model.tasks[index], value, where)


def read_request(task: Task, value: Any, where: str) -> Inputs:
    """Return the encoder's input for one request; an error names the request.

    Args:
        task: the task of the request.
        value: the input of the task; see `predict`.
        where: the beginning of an error message.
    """
    values = _by_column(task, value, where) if isinstance(value, Mapping) else _plain(task, value)
    if values is None:
        raise WeftError(f"{where}: task {task.name!r} takes {_expected_input(task)}; found {show(value)}")
    inputs, wrong = KINDS[task.kind]().inputs(task, values)
    if wrong:
        column, cell, message = wrong[0]
        raise WeftError(
            f"{where}: task {task.name!r} takes {_expected_input(task)}; {column} is {show(cell)}: {message}"
        )
    check_length(task, inputs, where)
    return inputs


def plain_form(task: Task, value: Any) -> Any:
    """Return the input of a task from an object whose keys may differ from the columns of the task's files.

    If the object has all columns of the task, it is returned as it is. Otherwise the input is its `text`, or
    its `text_a` and `text_b`, and its `choices` if the task has choices.
    """
    if not isinstance(value, Mapping) or task.marks:
        return value
    names = ["text"] if len(task.texts) == 1 else ["text_a", "text_b"]
    names += ["choices"] if task.choices else []
    if all(column in value for column in read_columns(task)) or any(name not in value for name in names):
        return value
    values = [value[name] for name in names]
    return values[0] if len(values) == 1 else tuple(values)


def _by_column(task: Task, row: Mapping[str, Any], where: str) -> ColumnValues:
    columns = read_columns(task)
    missing = [column for column in columns if column not in row]
    if missing:
        raise WeftError(
            f"{where}: task {task.name!r} takes {_expected_input(task)}; "
            f"{' and '.join(map(repr, missing))} {'is' if len(missing) == 1 else 'are'} missing; "
            f"found {', '.join(map(repr, row)) or 'nothing'}"
        )
    table = Table(where, {column: [row[column]] for column in columns}, np.ones(1, np.int64))
    return next(column_values(task, table))


def _plain(task: Task, value: Any) -> ColumnValues | None:
    """A text, a pair, words, or texts with a list of choices; None if the value is none of them."""
    if task.marks:
        return None
    if KINDS[task.kind].windows == "words":
        return ColumnValues((value,))
    parts = tuple(value) if isinstance(value, list | tuple) else (value,)
    if len(parts) != len(task.texts) + bool(task.choices):
        return None
    texts = tuple(map(plain_text, task.texts, parts))  # as many as the task has
    return ColumnValues(texts, parts[-1:]) if task.choices else ColumnValues(texts)


def _expected_input(task: Task) -> str:
    """Describe the input of a task, for error messages."""
    if task.marks:
        return f"a dict with {', '.join(read_columns(task))}"
    if KINDS[task.kind].windows == "words":
        return "a list of words, or a text that is split at white space"
    texts = "one text" if len(task.texts) == 1 else "a pair of texts"
    return f"({texts}, a list of choices)" if task.choices else texts
