"""Answers for a user: texts of any mix of tasks in, labels, numbers, pieces of text out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from weft.data.readers.columns import givens, read_columns
from weft.data.readers.table import Table
from weft.data.splits.split import Split
from weft.data.tokens.tokens import in_memory
from weft.errors import WeftError
from weft.inference.examples import Examples
from weft.inference.logits import AllLogits
from weft.inference.precision import Precision, precision_context
from weft.inference.runner import all_logits
from weft.tasks.kinds import KINDS
from weft.tasks.kinds.kind import Given, Inputs

if TYPE_CHECKING:
    from weft.data.tokens.tokens import Tokens
    from weft.model.model import Model
    from weft.tasks.task import Task

T = TypeVar("T")

Request = tuple[str, Any]
"""A task's name, and what it reads: a text, a pair of texts, or the columns of a row by name."""
Marks = tuple[tuple[int, int, int], ...]

QUEUED = 32
"""Batches that a GPU may be given before the logits of the first are waited for."""

SLAB = 4096
"""Requests that are tokenized at once: enough for batches of equal lengths, and little memory."""


def predict(
    model: Model,
    requests: Iterable[Request],
    batch_size: int | None = None,
    precision: Precision | None = None,
) -> list[dict[str, Any]]:
    """Answer each request, in the requests' order; tasks may be mixed anyhow.

    Several threads may call it on one model at once. A model in training mode is put into eval mode and left
    there: call `model.train()` before you train on.

    Requests are tokenized in another thread while the model answers those before them. On a GPU passes run as
    CUDA graphs where that pays (`CapturedModel.is_warm` has the rule; `Model.capture` prepares them).

    Example:
        >>> model.predict([("rte", ("It rains.", "It is wet.")), ("cola", "Cats sleeps.")])

    Args:
        model: the model.
        requests: (task, text), (task, (text, text)), (task, (text, [choice, …])) for `choose` and `rank`,
            (task, [word, …]) for `tag`, or (task, {column: value}) with the columns of the task's files.
        batch_size: the most rows of a pass; by default 64 on a CPU, and 16,384 token places on a GPU.
        precision: `float32` or `bf16`; by default the precision given to `Model.capture`, else float32.

    Returns:
        For each a dict: `task`, and what its kind answers: `label` with `probabilities` (classify, marked),
        `labels` (multilabel), `value` (regress, similarity), `answer` with `start` and `end` (span), `tags`
        and `entities` (tag), `choice` (choose), `order` (rank).
    """
    if batch_size is not None and batch_size < 1:
        raise WeftError(f"batch_size must be at least 1; found {batch_size}")
    if isinstance(requests, str | Mapping) or not isinstance(requests, Iterable):
        raise WeftError(
            f"requests: expected a list of (task, text) or (task, (text, text)); found {requests!r}"
        )
    requests = requests if isinstance(requests, list | tuple) else list(requests)
    inside = precision_context(model, precision)
    found: list[dict[str, Any]] = []
    before: tuple[_Slab, AllLogits] | None = None
    for slab in ahead(lambda which: tokenized(model, requests, which), slabs(len(requests))):
        # the GPU works on these requests while those before them become answers
        logits = all_logits(model, slab.examples, batch_size, precision=inside, ahead=QUEUED)
        if before is not None:
            found += answered(model, *before)
        before = slab, logits
    return found if before is None else found + answered(model, *before)


def slabs(count: int) -> list[range]:
    """Which requests are tokenized together: the first ones are few, so that the model soon has work."""
    first = min(count, SLAB if count <= SLAB else SLAB // 4)
    starts = range(first, count, SLAB)
    return [range(first)] * (count > 0) + [range(start, min(start + SLAB, count)) for start in starts]


def ahead(work: Callable[[range], T], slabs: Sequence[range]) -> Iterator[T]:
    """The results in order; the next one is worked on, by another thread, while one is used."""
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


@dataclass(frozen=True, eq=False)
class _Slab:
    """Some requests, tokenized.

    Attributes:
        tokens: of the requests of each task, by the task's id.
        examples: each request as one of its task's.
    """

    tokens: Mapping[int, Tokens]
    examples: Examples


def tokenized(model: Model, requests: Sequence[Request], which: range) -> _Slab:
    """Some of the requests, tokenized, those of one task together."""
    texts: dict[int, list[tuple[str, ...]]] = {}
    marks: dict[int, list[Marks]] = {}
    task, place = [], []
    readers = _Readers(model)
    for number, request in enumerate(requests[which.start : which.stop], which.start):
        index, inputs = readers.read(number, request)
        own = texts.setdefault(index, [])
        task.append(index)
        place.append(len(own))
        own.append(inputs.texts)
        if inputs.marks:
            marks.setdefault(index, []).append(inputs.marks)
    tokens = {}
    for index, own in texts.items():
        split = _split(model.tasks[index], own, marks.get(index))
        tokens[index] = in_memory(split, model.tokenizer, model.max_length)
    return _Slab(tokens, Examples.by_task(tokens, task, place))


class _Readers:
    """Reads requests; of texts as nearly all are, without looking twice."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self._ids = {task.name: number for number, task in enumerate(model.tasks)}
        # how many texts a request of the task has, where texts are all that it has
        self._plain = [
            0 if task.marks or task.choices or KINDS[task.kind].windows else len(task.texts)
            for task in model.tasks
        ]

    def read(self, number: int, request: Request) -> tuple[int, Inputs]:
        """The id of a request's task, and what the encoder reads of it."""
        if type(request) is tuple and len(request) == 2:
            name, given = request
            index = self._ids.get(name) if type(name) is str else None
            if index is not None:
                count = self._plain[index]
                texts = given if type(given) is tuple else (given,)
                if 0 < count == len(texts):
                    for text in texts:
                        if type(text) is not str or not text.isascii() or not text.strip():
                            break
                    else:
                        return index, Inputs(texts)
        return _checked(self._model, number, request)


def answered(model: Model, slab: _Slab, logits: AllLogits) -> list[dict[str, Any]]:
    """The answer to each request: those of one task together, put back in their order."""
    logits.finish()
    found: list[Any] = [None] * len(slab.examples)
    for index, tokens in slab.tokens.items():
        task = model.tasks[index]
        numbers = np.flatnonzero(slab.examples.task == index)
        examples = tokens.examples(slab.examples.index[numbers].tolist())
        answers = KINDS[task.kind]().answers(logits.of_task(index, numbers), task, examples)
        for number, answer in zip(numbers.tolist(), answers, strict=True):
            found[number] = {"task": task.name, **answer}
    return found


def as_split(task: Task, examples: Sequence[Inputs]) -> Split:
    """What is asked of one task, as a split of it."""
    marks = [inputs.marks for inputs in examples] if task.marks else None
    return _split(task, [inputs.texts for inputs in examples], marks)


def _split(task: Task, texts: list[tuple[str, ...]], marks: list[Marks] | None) -> Split:
    rows = np.arange(1, len(texts) + 1)
    return Split(task, "test", f"requests of task {task.name!r}", texts, None, rows, marks=marks)


def _checked(model: Model, number: int, request: Request) -> tuple[int, Inputs]:
    where = f"request {number + 1}"
    if not isinstance(request, list | tuple) or len(request) != 2:
        raise WeftError(f"{where}: expected (task, text) or (task, (text, text)); found {request!r}")
    name, given = request
    try:
        index = model.task_id(name)
    except WeftError as wrong:
        raise WeftError(f"{where}: {wrong}") from None
    return index, read_request(model.tasks[index], given, where)


def read_request(task: Task, given: Any, where: str) -> Inputs:
    """What the encoder reads of a request, or an error that says where it is.

    Args:
        task: its task.
        given: what it reads; see `predict`.
        where: the beginning of a message.
    """
    values = _by_column(task, given, where) if isinstance(given, Mapping) else _plain(task, given)
    if values is None:
        raise WeftError(f"{where}: task {task.name!r} takes {_wanted(task)}; found {given!r}")
    inputs, wrong = KINDS[task.kind]().inputs(task, values)
    if wrong:
        column, value, message = wrong[0]
        raise WeftError(
            f"{where}: task {task.name!r} takes {_wanted(task)}; {column} is {value!r}: {message}"
        )
    return inputs


def plain_form(task: Task, given: Any) -> Any:
    """What a task reads of an object that may have other names for it than the task's files.

    The object itself where the task's own columns are all there; else its `text`, or `text_a` and `text_b`,
    with `choices` where the task has some.
    """
    if not isinstance(given, Mapping) or task.marks:
        return given
    names = ["text"] if len(task.texts) == 1 else ["text_a", "text_b"]
    names += ["choices"] if task.choices else []
    if all(column in given for column in read_columns(task)) or any(name not in given for name in names):
        return given
    values = [given[name] for name in names]
    return values[0] if len(values) == 1 else tuple(values)


def _by_column(task: Task, given: Mapping[str, Any], where: str) -> Given:
    wanted = read_columns(task)
    missing = [column for column in wanted if column not in given]
    if missing:
        raise WeftError(
            f"{where}: task {task.name!r} takes {_wanted(task)}; {', '.join(map(repr, missing))} is missing"
        )
    table = Table(where, {column: [given[column]] for column in wanted}, np.ones(1, np.int64))
    return next(givens(task, table))


def _plain(task: Task, given: Any) -> Given | None:
    """A text, a pair, words, or texts with a list of choices; None where it is none of them."""
    if task.marks:
        return None
    if KINDS[task.kind].windows == "words":
        return Given((given,))
    parts = tuple(given) if isinstance(given, list | tuple) else (given,)
    if not task.choices:
        return Given(parts) if len(parts) == len(task.texts) else None
    if len(parts) != len(task.texts) + 1:
        return None
    return Given(parts[:-1], parts[-1:])


def _wanted(task: Task) -> str:
    """What a task takes, as words."""
    if task.marks:
        return f"a dict with {', '.join(read_columns(task))}"
    if KINDS[task.kind].windows == "words":
        return "a list of words, or a text that is cut at white space"
    texts = "one text" if len(task.texts) == 1 else "a pair of texts"
    return f"({texts}, a list of choices)" if task.choices else texts
