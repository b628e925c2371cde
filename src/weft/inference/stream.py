"""`predict_stream`: answers to any number of requests, with constant memory and in order.

Requests are cut into windows. Within a window they are batched by length. While the model answers one window,
a second thread tokenizes the next one; on a GPU the answers to the window before are decoded meanwhile. At
most three windows are in memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from weft.inference.precision import Precision, precision_context
from weft.inference.predict import QUEUED, Readers, answered
from weft.inference.predict_all import answers_of_inputs
from weft.inference.runner import all_logits
from weft.inference.slab import Slab, tokenize_inputs
from weft.tasks.kinds.kind import Inputs
from weft.utils.forks import SameProcess

if TYPE_CHECKING:
    from weft.inference.logits import AllLogits
    from weft.inference.predict import Request
    from weft.model.model import Model

SIZES = (64, 256, 1024, 4096)
"""How many requests the first windows have, and all later ones. The first are small: results appear early."""

CHARACTERS = 1 << 22
"""A window ends earlier once its texts have this many characters, so that long texts need no more memory."""


class Item(NamedTuple):
    """One place in a stream.

    Attributes:
        payload: anything; it is returned with the answer.
        inputs: what the model reads; None: there is nothing to answer.
    """

    payload: Any
    inputs: Any = None


class Stages(Protocol):
    """How the requests of a window are answered, in three stages."""

    waits: bool
    """Whether `start` returns before its results are there, as on a GPU."""

    def prepare(self, inputs: list[Any]) -> Any:
        """Tokenize; this runs in a second thread."""

    def start(self, prepared: Any) -> Any:
        """Run the model."""

    def finish(self, started: Any) -> list[dict[str, Any]]:
        """Return the answers, one per input."""

    def characters(self, inputs: Any) -> int:
        """Return how long the texts of one request are."""


class OneTaskEach:
    """Requests for one task each, of any mix of tasks: (task id, input)."""

    def __init__(self, model: Model, batch_size: int | None = None, precision: Precision | None = None):
        self._model, self._batch_size = model, batch_size
        self._inside = precision_context(model, precision)
        self.waits = next(model.parameters()).device.type == "cuda"

    def prepare(self, inputs: list[tuple[int, Inputs]]) -> Slab:
        """Tokenize."""
        return tokenize_inputs(self._model, inputs)

    def start(self, slab: Slab) -> tuple[Slab, AllLogits]:
        """Run the model; on a GPU the last batches may still be on their way."""
        return slab, all_logits(
            self._model, slab.examples, self._batch_size, precision=self._inside, ahead=QUEUED
        )

    def finish(self, started: tuple[Slab, AllLogits]) -> list[dict[str, Any]]:
        """Decode the logits."""
        return answered(self._model, *started)

    def characters(self, inputs: tuple[int, Inputs]) -> int:
        """The length of all texts."""
        return sum(map(len, inputs[1].texts))


class ManyTasksEach:
    """Requests for many tasks each: {task id: input}."""

    waits = False

    def __init__(self, model: Model, batch_size: int | None = None, precision: Precision | None = None):
        self._model, self._batch_size, self._precision = model, batch_size, precision

    def prepare(self, inputs: list[dict[int, Inputs]]) -> list[dict[int, Inputs]]:
        """Nothing: tokens are shared between the tasks of a window."""
        return inputs

    def start(self, inputs: list[dict[int, Inputs]]) -> list[dict[str, Any]]:
        """Run the model and decode."""
        return answers_of_inputs(self._model, inputs, self._batch_size, self._precision)

    def finish(self, started: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Nothing is left to do."""
        return started

    def characters(self, inputs: dict[int, Inputs]) -> int:
        """The length of all texts of all tasks."""
        return sum(len(text) for task in inputs.values() for text in task.texts)


def predict_stream(
    model: Model,
    requests: Iterable[Request],
    batch_size: int | None = None,
    precision: Precision | None = None,
) -> Iterator[dict[str, Any]]:
    """Yield the answer to each request, in order, while the requests are read.

    The requests may be a generator without end: memory does not grow with their number. Several threads may
    each have a stream of one model. Answers are those of `predict`; a request that cannot be read raises an
    error after all requests before it were answered.

    Example:
        >>> lines = (line.strip() for line in open("reviews.txt"))
        >>> for answer in model.predict_stream(("sentiment", line) for line in lines):
        ...     print(answer["label"])

    Args:
        model: the model.
        requests: as in `weft.inference.predict`.
        batch_size: as there.
        precision: as there.
    """
    readers = Readers(model)
    read = (Item(None, readers.read(number, request)) for number, request in enumerate(requests))
    for window in in_windows(read, OneTaskEach(model, batch_size, precision)):
        for _, answer in window:
            yield answer


def in_windows(
    items: Iterable[Item | None], stages: Stages, sizes: Sequence[int] | None = None
) -> Iterator[list[tuple[Any, Any]]]:
    """Answer a stream, window by window.

    Args:
        items: the requests in order. None: nothing more is ready yet, so what was read is answered at once.
        stages: how requests are answered.
        sizes: how many requests the first windows have, and all later ones; None: `SIZES`.

    Yields:
        For each window, (payload, answer) of each item in order; without inputs the answer is None.

    Raises:
        Exception: whatever `items` raises, after everything before it was answered.
    """
    process = SameProcess()
    with ThreadPoolExecutor(1) as pool:
        preparing: tuple[list[Item], Future[Any]] | None = None
        started: tuple[list[Item], Any] | None = None
        for window, last in _windows(items, stages, sizes or SIZES):
            process.check("this stream of predictions")
            coming = None
            if window:
                inputs = [item.inputs for item in window if item.inputs is not None]
                coming = window, pool.submit(stages.prepare, inputs)
            for ready in (preparing, coming) if last else (preparing,):
                if ready is not None:
                    before, started = started, (ready[0], stages.start(ready[1].result()))
                    if before is not None:
                        yield _finished(*before, stages)
            preparing = None if last else coming
            if started is not None and (last or not stages.waits):
                yield _finished(*started, stages)
                started = None


def _finished(window: list[Item], started: Any, stages: Stages) -> list[tuple[Any, Any]]:
    answers = iter(stages.finish(started))
    return [(item.payload, None if item.inputs is None else next(answers)) for item in window]


def _windows(
    items: Iterable[Item | None], stages: Stages, sizes: Sequence[int]
) -> Iterator[tuple[list[Item], bool]]:
    """Yield (window, whether to answer everything before reading on). The last window may be empty."""
    window: list[Item] = []
    number = characters = 0
    source = iter(items)
    while True:
        try:
            item = next(source, _END)
        except Exception:
            yield window, True
            raise
        if item is _END:
            yield window, True
            return
        if item is None:
            yield window, True
            window, characters = [], 0
            continue
        window.append(item)
        characters += 0 if item.inputs is None else stages.characters(item.inputs)
        if len(window) >= sizes[min(number, len(sizes) - 1)] or characters >= CHARACTERS:
            yield window, False
            window, characters, number = [], 0, number + 1


_END: Any = object()
