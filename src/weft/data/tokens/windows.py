"""Split long texts into several rows: windows over a context or over a sentence of words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.data.tokens.backends import Backends, Cut

QUESTION = 64
"""The maximal number of tokens of a question before its context; in short rows, half of the row."""


@dataclass
class Row:
    """A row of L tokens: ids, types, and the channels of its kind, [L] by name."""

    ids: list[int]
    types: list[int]
    channels: dict[str, NDArray[Any]] = field(default_factory=dict)


Rows = tuple[list[Row], list[int], list[int]]
"""All rows, the number of rows per example, and the length of each example before windowing."""


def context_rows(texts: Sequence[tuple[str, ...]], backends: Backends, max_length: int, stride: int) -> Rows:
    """Return rows of [question] [window of the context], with each token's characters in the context.

    Args:
        texts: (question, context) of each example.
        backends: the tokenizer's backends.
        max_length: the maximal length of a row.
        stride: the tokens that neighbouring windows share.
    """
    backend = backends.plain
    special = backend.num_special_tokens_to_add(True)
    most = min(QUESTION, (max_length - special) // 2)
    questions = backend.encode_batch([question for question, _ in texts], add_special_tokens=False)
    short = [
        _shortened(pair[0], encoding, most, backend) for pair, encoding in zip(texts, questions, strict=True)
    ]
    cutting = backends.cutting(Cut(max_length, "only_second", "right", stride))
    pairs = [(question, context) for question, (_, context) in zip(short, texts, strict=True)]
    encodings = cutting.encode_batch(pairs)
    rows: list[Row] = []
    counts, full = [], []
    for encoding, question in zip(encodings, questions, strict=True):
        windows = (encoding, *encoding.overflowing)
        of_context = [np.array([s == 1 for s in window.sequence_ids], bool) for window in windows]
        rows += [_context_row(*pair) for pair in zip(windows, of_context, strict=True)]
        counts.append(len(windows))
        tokens = sum(int(mask.sum()) for mask in of_context) - stride * (len(windows) - 1)
        full.append(special + len(question) + tokens)
    return rows, counts, full


def _shortened(question: str, encoding: Any, most: int, backend: Any) -> str:
    """Return the beginning of the question, at most `most` tokens."""
    if len(encoding) <= most:
        return question
    end = encoding.offsets[most - 1][1]
    # a text truncated inside a word or a multi-byte character may have more tokens than before
    while len(backend.encode(question[:end], add_special_tokens=False)) > most:
        end -= 1
    return question[:end]


def _context_row(encoding: Any, of_context: NDArray[np.bool_]) -> Row:
    offsets = np.array(encoding.offsets, np.int32).reshape(-1, 2)
    inside = of_context & (offsets[:, 1] > offsets[:, 0])  # some tokens have no characters
    starts, ends = (np.where(inside, offsets[:, k], -1) for k in (0, 1))
    return Row(encoding.ids, encoding.type_ids, {"starts": starts, "ends": ends})


def word_rows(sentences: Sequence[tuple[str, ...]], backends: Backends, max_length: int, stride: int) -> Rows:
    """Return rows of a sentence's words, with the word that each token begins; each word is in one row only.

    Args:
        sentences: the words of each example.
        backends: the tokenizer's backends.
        max_length: the maximal length of a row.
        stride: the tokens that neighbouring windows share.
    """
    cutting = backends.cutting(Cut(max_length, "longest_first", "right", stride))
    encodings = cutting.encode_batch([list(words) for words in sentences], is_pretokenized=True)
    rows: list[Row] = []
    counts, full = [], []
    for encoding in encodings:
        windows = [encoding, *encoding.overflowing]
        counts.append(len(windows))
        full.append(sum(map(len, windows)) - (len(windows) - 1) * (stride + _specials(encoding)))
        channels = _owned_words(windows, stride)
        rows += [Row(w.ids, w.type_ids, {"words": words}) for w, words in zip(windows, channels, strict=True)]
    return rows, counts, full


def _specials(encoding: Any) -> int:
    return sum(encoding.special_tokens_mask)


def _owned_words(windows: Sequence[Any], stride: int) -> list[NDArray[Any]]:
    """Per window: the word that each token begins, −1 if it begins none or the word belongs to another row.

    A word in two windows belongs to the one in which its first token is farther from the ends.
    """
    words = [[word for word in window.word_ids if word is not None] for window in windows]
    real = [np.array([word is not None for word in window.word_ids]) for window in windows]
    # each window begins with the last `stride` tokens of the previous one
    begun = _begun([*words[0], *(word for window in words[1:] for word in window[stride:])])
    owned = [np.full(len(mask), -1) for mask in real]
    sizes = [len(window) for window in words]
    firsts = np.concatenate([[0], np.cumsum([size - stride for size in sizes[:-1]])]).astype(np.int64)
    best = np.full(len(begun), -1)
    owner = np.zeros(len(begun), np.int64)
    for number, (first, size) in enumerate(zip(firsts, sizes, strict=True)):
        positions = np.arange(first, first + size)
        distance = np.minimum(positions - first, first + size - 1 - positions)
        farther = distance > best[positions]
        owner[positions[farther]], best[positions[farther]] = number, distance[farther]
    for number, (first, size, mask) in enumerate(zip(firsts, sizes, real, strict=True)):
        positions = np.arange(first, first + size)
        owned[number][mask] = np.where(owner[positions] == number, begun[positions], -1)
    return owned


def _begun(words: list[int]) -> NDArray[np.int64]:
    """Return the word that each token begins, −1 if it continues a word."""
    begun = np.array(words, np.int64)
    begun[1:][begun[1:] == begun[:-1]] = -1
    return begun
