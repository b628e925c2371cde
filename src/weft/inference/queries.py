"""The queries of `predict_all`: each is one task reading one text, or a piece of a long text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from weft.data.tokens.tokens import Tokens, in_memory
from weft.inference.slab import as_split
from weft.tasks.kinds import KINDS

if TYPE_CHECKING:
    from weft.model.model import Model
    from weft.tasks.kinds.kind import Inputs

Logits = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Query:
    """One task reading one text, or a piece of it.

    Attributes:
        number: the number of the query; all pieces of a query have the same.
        text: the number of the text.
        task: the id of the task.
        tokens: the tokenized texts of the task.
        example: the number of this text, or of this piece, among them.
        piece: the number of this piece.
        pieces: how many pieces the query has.
    """

    number: int
    text: int
    task: int
    tokens: Tokens
    example: int
    piece: int = 0
    pieces: int = 1

    @property
    def rows(self) -> int:
        """The number of its rows."""
        return len(self.tokens.rows_of(self.example))


def queries_of(model: Model, inputs: Sequence[dict[int, Inputs]]) -> list[Query]:
    """Return every query, tokenized. Tasks that make the same rows of the same texts share their tokens."""
    texts_of: dict[int, list[int]] = {}  # the numbers of the texts that each task reads
    for number, by_task in enumerate(inputs):
        for index in by_task:
            texts_of.setdefault(index, []).append(number)
    tokens: dict[object, Tokens] = {}
    queries: list[Query] = []
    for index, numbers in texts_of.items():
        task = model.tasks[index]
        task_inputs = [inputs[number][index] for number in numbers]
        kind = KINDS[task.kind]
        # all that tokens depend on; the names of the columns do not matter any more
        form = kind.windows, kind.channels, task.apart, bool(task.choices), len(task.texts), task.stride
        # pairs that are encoded separately and lists of choices become rows by the kind's own rule
        key = (form, task.kind if task.apart or task.choices else None, tuple(task_inputs))
        if key not in tokens:
            tokens[key] = in_memory(as_split(task, task_inputs), model.tokenizer, model.max_length)
        for example, number in enumerate(numbers):
            queries.append(Query(len(queries), number, index, tokens[key], example))
    return queries


def in_pieces(model: Model, queries: Sequence[Query], most: int) -> list[Query]:
    """Cut the queries of more than `most` rows into pieces; see `weft.inference.pieces`."""
    finer: dict[Tokens, tuple[Tokens, NDArray[np.int64]]] = {}
    pieces: list[Query] = []
    for query in queries:
        if query.rows <= most or model.answers_by[model.tasks[query.task].head] == "example":
            pieces.append(query)
            continue
        if query.tokens not in finer:
            finer[query.tokens] = query.tokens.in_pieces(most)
        tokens, starts = finer[query.tokens]
        first, count = int(starts[query.example]), int(starts[query.example + 1] - starts[query.example])
        pieces += [
            replace(query, tokens=tokens, example=first + piece, piece=piece, pieces=count)
            for piece in range(count)
        ]
    return pieces


def joined(answered: Iterable[tuple[Query, Logits]]) -> Iterator[tuple[int, Logits]]:
    """Yield (number, logits) of each query, from the logits of its pieces in any order."""
    waiting: dict[int, dict[int, Logits]] = {}
    for query, logits in answered:
        if query.pieces == 1:
            yield query.number, logits
            continue
        parts = waiting.setdefault(query.number, {})
        parts[query.piece] = logits
        if len(parts) == query.pieces:
            del waiting[query.number]
            yield query.number, np.concatenate([parts[piece] for piece in range(query.pieces)])


def groups(queries: Sequence[Query], batch_size: int) -> Iterator[list[Query]]:
    """Yield all queries about texts of similar length, with at most `batch_size` distinct rows."""
    of_text: dict[tuple[int, int], list[Query]] = {}
    for query in queries:
        of_text.setdefault((query.text, query.piece), []).append(query)
    longest = {text: max(int(q.tokens.lengths[q.example]) for q in of_text[text]) for text in of_text}
    group: list[Query] = []
    rows = 0
    for text in sorted(of_text, key=longest.__getitem__):
        same_text = of_text[text]
        distinct = len({_row_key(q.tokens, row) for q in same_text for row in q.tokens.rows_of(q.example)})
        if group and rows + distinct > batch_size:
            yield group
            group, rows = [], 0
        group += same_text
        rows += distinct
    if group:
        yield group


def _row_key(tokens: Tokens, row: int) -> tuple[bytes, bytes]:
    types = tokens.types(row)
    return tokens.ids(row).tobytes(), b"" if types is None or not types.any() else types.tobytes()
