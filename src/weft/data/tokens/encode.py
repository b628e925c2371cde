"""Encode texts into arrays of tokens: one or several rows per example, long ones truncated or windowed.

The tokenizer's threads and the conversion into arrays run in parallel, so that all cores are busy.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from weft.data.tokens.backends import Cut, backends_of
from weft.data.tokens.windows import Row, context_rows, word_rows
from weft.errors import WeftError
from weft.tasks.kinds import KINDS

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    from weft.data.splits.split import Split

Progress = Callable[[int, int], None]
Marks = tuple[tuple[int, int, int], ...]

CHUNK = 2048
"""The number of examples tokenized at once: enough for all threads, few enough for Python lists."""
CHANNELS = {"marks": np.int8, "starts": np.int32, "ends": np.int32, "words": np.int32}


@dataclass
class _Chunk:
    """The rows of some examples: flat arrays, lengths of rows, and rows per example."""

    ids: NDArray[np.int32]
    types: NDArray[np.int8]
    lengths: NDArray[np.int64]
    full_lengths: NDArray[np.int32]
    counts: NDArray[np.int64]
    channels: dict[str, NDArray[Any]]


def encode(
    split: Split, tokenizer: PreTrainedTokenizerBase, max_length: int, progress: Progress | None = None
) -> dict[str, NDArray[np.integer]]:
    """Return the arrays of a cache entry, all in memory: for a few examples.

    Args:
        split: the n examples.
        tokenizer: a fast tokenizer.
        max_length: the maximal length of a row or window.
        progress: called with (examples done, n).
    """
    pieces = Pieces(split, tokenizer, max_length, progress)
    found = list(pieces)
    return {name: np.concatenate([piece[name] for piece in found]) for name in pieces.names}


class Pieces:
    """The arrays of a cache entry, piece by piece; see `encode` for the arguments.

    Iterating yields dicts of arrays by name; the pieces of a name, one after the other, are its array.

    Attributes:
        names: after the last piece, the names of the arrays that the entry needs; others say nothing.
    """

    def __init__(
        self,
        split: Split,
        tokenizer: PreTrainedTokenizerBase,
        max_length: int,
        progress: Progress | None = None,
    ) -> None:
        self._encoder, self._size, self._progress = (
            _Encoder(split, tokenizer, max_length),
            len(split),
            progress,
        )
        self._typed = gives_types(tokenizer)
        self.names: list[str] = []

    def __iter__(self) -> Iterator[dict[str, NDArray[np.integer]]]:
        done = rows = tokens = 0
        several = typed = False
        for chunk in _in_order(self._encoder.chunk, range(0, self._size, CHUNK)):
            several = several or bool((chunk.counts != 1).any())
            typed = typed or (self._typed and bool(chunk.types.any()))
            yield {
                "ids": chunk.ids,
                "offsets": _ends(chunk.lengths, tokens, first=not done),
                "full_lengths": chunk.full_lengths,
                "first_rows": _ends(chunk.counts, rows, first=not done),
                "types": chunk.types,
                **chunk.channels,
            }
            done, tokens, rows = done + len(chunk.counts), tokens + len(chunk.ids), rows + len(chunk.lengths)
            if self._progress is not None:
                self._progress(done, self._size)
        needed = {"first_rows": several, "types": typed}
        names = ("ids", "offsets", "full_lengths", *needed, *self._encoder.kind.channels)
        self.names = [name for name in names if needed.get(name, True)]


class _Encoder:
    """Encodes chunks of a split. Several threads may use it at once, with the same backends."""

    def __init__(self, split: Split, tokenizer: PreTrainedTokenizerBase, max_length: int) -> None:
        self.split, self.tokenizer, self.max_length = split, tokenizer, max_length
        self.task, self.kind = split.task, KINDS[split.task.kind]()
        self.side: str = tokenizer.truncation_side
        self.stride = stride_of(self.task.stride, self.kind.windows, max_length, self.task.name)
        self.backends = backends_of(tokenizer)
        self.before_word = " " if self.backends.byte_level else ""

    def chunk(self, first: int) -> _Chunk:
        """Encode one chunk of examples, starting at `first`."""
        texts = self.split.texts[first : first + CHUNK]
        if self.kind.windows == "context":
            rows = context_rows(texts, self.backends, self.max_length, self.stride)
        elif self.kind.windows == "words":
            spaced = [tuple(self.before_word + word for word in words) for words in texts]
            rows = word_rows(spaced, self.backends, self.max_length, self.stride)
        else:
            marks = self.split.marks
            return self._plain(texts, None if marks is None else marks[first : first + CHUNK])
        return _arrays(*rows, self.kind.channels)

    def _plain(self, texts: Sequence[tuple[str, ...]], marks: list[Marks] | None) -> _Chunk:
        """Encode rows of one or two texts; truncate long rows, in a pair the longer text first."""
        several = self.task.apart or bool(self.task.choices)
        by_example = [self.kind.rows(self.task, row_texts) for row_texts in texts] if several else [texts]
        batch = [row[0] if len(row) == 1 else row for rows in by_example for row in rows]
        # character offsets are needed for marks only, and take a third of the time
        encode_batch = "encode_batch_fast" if marks is None else "encode_batch"
        encodings = getattr(self.backends.plain, encode_batch)(batch)
        full = np.fromiter(map(len, encodings), np.int32, len(encodings))
        # the few rows that are too long are encoded again, so that the tokenizer itself truncates them
        long = np.flatnonzero(full > self.max_length).tolist()
        if long:
            cutting = self.backends.cutting(Cut(self.max_length, "longest_first", self.side))
            again = getattr(cutting, encode_batch)([batch[i] for i in long])
            for i, encoding in zip(long, again, strict=True):
                encodings[i] = encoding
        lengths = np.minimum(full, np.fromiter(map(len, encodings), np.int64, len(encodings)))
        counts = np.array([len(rows) for rows in by_example] if several else np.ones(len(texts)), np.int64)
        size = int(lengths.sum())
        # a row of one text has no token of type 1
        paired = gives_types(self.tokenizer) and any(type(row) is tuple for row in batch)
        types = np.zeros(size, np.int8)
        if paired:
            types = np.fromiter(chain.from_iterable(e.type_ids for e in encodings), np.int8, size)
        channels = {}
        if marks is not None:
            marked = [_marked(e, row_marks) for e, row_marks in zip(encodings, marks, strict=True)]
            channels["marks"] = np.concatenate(marked).astype(CHANNELS["marks"])
        return _Chunk(
            np.fromiter(chain.from_iterable(e.ids for e in encodings), np.int32, size),
            types,
            lengths.astype(np.int64),
            _longest(full, counts),
            counts,
            channels,
        )


def _marked(encoding: Any, marks: Marks) -> NDArray[np.int8]:
    """Return 1 for a token in the first mark, 2 in the second, 3 in both, else 0."""
    flags = np.zeros(len(encoding.ids), np.int8)
    offsets = np.array(encoding.offsets, np.int64).reshape(-1, 2)
    sequence = np.array([-1 if s is None else s for s in encoding.sequence_ids])
    for number, (text, start, end) in enumerate(marks):
        inside = (sequence == text) & (offsets[:, 1] > start) & (offsets[:, 0] < end)
        flags[inside] |= 1 << number
    return flags


def _longest(full: NDArray[np.int32], counts: NDArray[np.int64]) -> NDArray[np.int32]:
    """Return the length of the longest row of each example."""
    if len(full) == len(counts):
        return full
    return np.maximum.reduceat(full, np.cumsum(counts) - counts)


def _arrays(rows: list[Row], counts: list[int], full: list[int], channels: Sequence[str]) -> _Chunk:
    ids = [row.ids for row in rows]
    size = sum(map(len, ids))
    return _Chunk(
        np.fromiter(chain.from_iterable(ids), np.int32, size),
        np.fromiter(chain.from_iterable(row.types for row in rows), np.int8, size),
        np.fromiter(map(len, ids), np.int64, len(ids)),
        np.array(full, np.int32),
        np.array(counts, np.int64),
        {
            name: np.concatenate([row.channels[name] for row in rows]).astype(CHANNELS[name])
            for name in channels
        },
    )


def _ends(lengths: NDArray[np.int64], before: int, first: bool) -> NDArray[np.int64]:
    """Return where each of some neighbours ends, after `before`; the first piece begins with 0."""
    ends = before + np.cumsum(lengths)
    return np.concatenate([[0], ends]) if first else ends


def _in_order(work: Callable[[int], _Chunk], firsts: Sequence[int]) -> Iterator[_Chunk]:
    """Yield the chunks in order, with two of them in progress at any time."""
    if len(firsts) == 1:
        yield work(firsts[0])
        return
    with ThreadPoolExecutor(2) as pool:
        ahead: deque[Future[_Chunk]] = deque()
        for first in firsts:
            ahead.append(pool.submit(work, first))
            if len(ahead) > 2:
                yield ahead.popleft().result()
        while ahead:
            yield ahead.popleft().result()


def stride_of(configured: int | None, windows: str | None, max_length: int, task: str) -> int:
    """Return the number of tokens that two windows share: as configured, else a third of max_length."""
    if windows is None:
        return 0
    room = max_length // 2 - 3  # the minimal size of a window of a context
    stride = max(0, min(max_length // 3, room - 1)) if configured is None else configured
    if room < 2:
        raise WeftError(
            f"task {task!r}: max_length {max_length} leaves no room for windows; "
            "expected a train.max_length of 12 or more"
        )
    if stride >= room:
        raise WeftError(
            f"task {task!r}: stride {stride} leaves windows of max_length {max_length} no step; expected "
            f"less than {max(room, 1)}, or a larger train.max_length"
        )
    return stride


def gives_types(tokenizer: PreTrainedTokenizerBase) -> bool:
    """Whether its model uses token types. RoBERTa's backend returns types, but its model has none."""
    return "token_type_ids" in tokenizer.model_input_names
