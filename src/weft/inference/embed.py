"""`embed`: return one vector per text, the vector that a task's head reads."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from weft.core.route import Route
from weft.data.readers.columns import plain_text
from weft.data.readers.problem import show
from weft.data.splits.split import Split
from weft.data.tokens.tokens import in_memory
from weft.encoder.anatomy import sites_of
from weft.errors import WeftError
from weft.inference.calls import frame_of, listed
from weft.inference.examples import Examples
from weft.inference.finite import NotFinite
from weft.inference.limits import most_characters, too_long
from weft.inference.precision import Precision, precision_context
from weft.inference.predict import QUEUED, ahead, slabs
from weft.inference.runner import batches
from weft.model.pooling import Reads
from weft.tasks.task import Task
from weft.tasks.values import wrong_text

if TYPE_CHECKING:
    from weft.inference.logits import BatchLogits, Reader
    from weft.model.heads import Head
    from weft.model.model import Model
    from weft.model.output import Output

VECTORS = "vectors"


def embed(
    model: Model,
    texts: str | Iterable[Any],
    task: str | None = None,
    normalize: bool = False,
    batch_size: int | None = None,
    precision: Precision | None = None,
) -> Tensor:
    """Return one vector per text: what a task's head reads, or what the encoder alone gives.

    With a task: the hidden states under its adapters, pooled as its head pools them (`pooler`, `cls`, `mean`,
    or its own pooler, `task_pooler`). Heads of `span` and `tag` read every token instead; the vector is then
    pooled by the model's `pool`. Without a task: adapters are off, and hidden states are pooled as the
    encoder declares (a sentence encoder's `1_Pooling`), else by the mean over the tokens. If the method
    trains the encoder itself, its current weights are used.

    With a task, templates of one column (`texts="query: {text}"`) are filled, if as many texts are passed as
    the task has: for a task that encodes the texts of a pair separately, pass texts that are filled already.

    Texts are batched, and on a GPU captured, as in `weft.inference.predict`.

    Example:
        >>> vectors = model.embed(["A cat sleeps.", "It rains."], task="cola", normalize=True)
        >>> vectors.shape                       # [N, d], float32, on the CPU
        torch.Size([2, 384])
        >>> float(vectors[0] @ vectors[1])      # the cosine, since the rows have norm 1

    Args:
        model: the model.
        texts: N texts or pairs of texts, in any mix; a column of a data frame is a list of texts. The two
            texts of a pair are encoded together. One text may be a string.
        task: the task whose adapters and pooling are used; None: the encoder without adapters.
        normalize: whether to divide each vector by its Euclidean norm.
        batch_size: maximum rows per pass; by default as in `predict`.
        precision: `float32` or `bf16`; by default the precision passed to `Model.capture`, else float32.

    Returns:
        [N, d] in the order of the texts, float32, on the CPU; [d] for one text that is not in a list.
    """
    number = 0 if task is None else model.task_id(task)
    width = sites_of(model.encoders[0]).width
    with model.adapters_off() if task is None else nullcontext():
        reader: Reader = _BareReader(model) if task is None else _TaskReader(model, number)
        return embed_with(model, texts, task, reader, width, normalize, batch_size, precision)


def embed_with(
    model: Model,
    texts: str | Iterable[Any],
    task: str | None,
    reader: Reader,
    width: int,
    normalize: bool = False,
    batch_size: int | None = None,
    precision: Precision | None = None,
) -> Tensor:
    """Return one vector per text; arguments and result are those of `embed`.

    Args:
        model: the model.
        texts: as in `embed`.
        task: as in `embed`.
        reader: returns the rows' vectors, [R, d], as `VECTORS` of each pass.
        width: d.
        normalize: as in `embed`.
        batch_size: as in `embed`.
        precision: as in `embed`.
    """
    if batch_size is not None and batch_size < 1:
        raise WeftError(f"batch_size must be at least 1; found {batch_size}")
    if isinstance(texts, str):
        return embed_with(model, [texts], task, reader, width, normalize, batch_size, precision)[0]
    if (rows := frame_of(texts)) is not None:
        example = f"[{rows.names[0]!r}]" if rows.names else ""
        raise WeftError(
            f"texts: found a data frame; expected texts: pass a column of it, such as df{example}"
        )
    if isinstance(texts, Mapping) or not isinstance(texts, Iterable):
        raise WeftError(f"texts: expected a list of texts or pairs of texts; found {texts!r}")
    number = 0 if task is None else model.task_id(task)
    apart = task is not None and model.tasks[number].apart
    alone, most = task if apart else None, most_characters()
    checked = [_checked(f"text {i}", text, alone, most) for i, text in enumerate(listed(texts), 1)]
    if task is not None:
        checked = [_filled(model.tasks[number].texts, parts) for parts in checked]
    inside = precision_context(model, precision)
    values = np.empty((len(checked), width), np.float32)
    waiting: deque[tuple[int, BatchLogits]] = deque()

    def take(most: int) -> None:
        while len(waiting) > most:
            first, batch = waiting.popleft()
            rows = np.asarray(batch.of_rows)
            # padding rows come last
            values[first + rows] = batch.moving.wait()[VECTORS][: len(rows)]

    for first, examples in ahead(
        lambda which: (which.start, _tokenized(model, checked[which.start : which.stop], number)),
        slabs(len(checked)),
    ):
        for batch in batches(model, examples, batch_size, precision=inside, read=reader):
            waiting.append((first, batch))
            take(QUEUED)
    take(0)
    if odd := len(values) - int(np.isfinite(values).all(1).sum()):
        raise NotFinite("the encoder" if task is None else f"task {task!r}", odd, len(values))
    vectors = torch.from_numpy(values)
    return F.normalize(vectors, dim=-1) if normalize else vectors


class _TaskReader:
    """Returns the vectors that the head of one task reads, one per row."""

    def __init__(self, model: Model, number: int) -> None:
        self._model, self._number = model, number
        self._head: Head = model.heads[model.tasks[number].head]  # type: ignore[assignment]

    def __call__(self, output: Output) -> dict[str, Tensor]:
        task = torch.full((len(output.hidden),), self._number, device=output.hidden.device)
        route = Route(task, output.layout.mask, single=self._number, kernels=self._model.kernels)
        return {VECTORS: self._head.vectors(Reads(output.hidden, output.pooled, output.layout), route)}


class _BareReader:
    """Returns the hidden states, pooled as the encoder declares."""

    def __init__(self, model: Model) -> None:
        self._pool = model.encoder_source.pooling or "mean"

    def __call__(self, output: Output) -> dict[str, Tensor]:
        return {VECTORS: Reads(output.hidden, output.pooled, output.layout).pooled(self._pool)}


def _checked(where: str, text: Any, apart: str | None, most: int) -> tuple[str, ...]:
    """Return a text or pair as a tuple.

    Args:
        where: the beginning of an error message.
        text: the text or pair.
        apart: a task that encodes the texts of a pair separately, if there is one.
        most: the most characters that it may have.
    """
    parts = tuple(text) if isinstance(text, list | tuple) else (text,)
    if len(parts) not in (1, 2) or not all(isinstance(part, str) for part in parts):
        raise WeftError(f"{where}: expected a text or a pair of texts; found {show(text)}")
    if apart is not None and len(parts) == 2:
        raise WeftError(
            f"{where}: task {apart!r} encodes the two texts of a pair separately, into one vector each; "
            f"pass them as two texts (found {show(text)})"
        )
    for part in parts:
        if wrong := wrong_text(part):
            raise WeftError(f"{where} is {show(text)}: {wrong}")
    if (characters := sum(map(len, parts))) > most:
        raise too_long(where, characters, most)
    return parts


def _filled(columns: tuple[str, ...], parts: tuple[str, ...]) -> tuple[str, ...]:
    """Fill the task's templates, if there are as many texts as the task has."""
    if len(columns) != len(parts):
        return parts
    return tuple(str(plain_text(column, part)) for column, part in zip(columns, parts, strict=True))


def _tokenized(model: Model, texts: list[tuple[str, ...]], number: int) -> Examples:
    """Tokenize the texts as examples of one row each, of the task with this number."""
    columns = ("text_a", "text_b") if any(len(text) == 2 for text in texts) else ("text",)
    rows = Task("texts", "regress", texts=columns)  # rows of plain texts, whatever the kind of the task
    split = Split(rows, "test", "texts", texts, None, np.arange(1, len(texts) + 1))
    tokens = in_memory(split, model.tokenizer, model.max_length)
    count = len(texts)
    return Examples([tokens], np.full(count, number), np.zeros(count, np.int64), np.arange(count))
