"""Long texts as several rows: windows over a context, or over a sentence of words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.data.tokens.backends import Backends, Cut

QUESTION = 64
"""The most tokens of a question before its context; of short rows, half of what they hold."""


@dataclass
class Row:
    """A row of L tokens: ids, types, and what its kind keeps of each token, [L] by name."""

    ids: list[int]
    types: list[int]
    channels: dict[str, NDArray[Any]] = field(default_factory=dict)


Rows = tuple[list[Row], list[int], list[int]]
"""All rows, how many each example has, and its length before it was windowed."""


def context_rows(texts: Sequence[tuple[str, ...]], backends: Backends, max_length: int, stride: int) -> Rows:
    """Rows of [question] [window of the context], with each token's characters in the context.

    Args:
        texts: (question, context) of each example.
        backends: of the tokenizer.
        max_length: of a row.
        stride: the tokens that neighbouring windows share.
    """
    backend = backends.plain
    special = backend.num_special_tokens_to_add(True)
    most = min(QUESTION, (max_length - special) // 2)
    asked = backend.encode_batch([question for question, _ in texts], add_special_tokens=False)
    short = [_shortened(own[0], encoding, most, backend) for own, encoding in zip(texts, asked, strict=True)]
    cutting = backends.cutting(Cut(max_length, "only_second", "right", stride))
    pairs = [(question, own[1]) for question, own in zip(short, texts, strict=True)]
    encodings = cutting.encode_batch(pairs)
    rows: list[Row] = []
    counts, full = [], []
    for encoding, question in zip(encodings, asked, strict=True):
        windows = (encoding, *encoding.overflowing)
        of_context = [np.array([s == 1 for s in window.sequence_ids], bool) for window in windows]
        rows += [_context_row(*pair) for pair in zip(windows, of_context, strict=True)]
        counts.append(len(windows))
        tokens = sum(int(own.sum()) for own in of_context) - stride * (len(windows) - 1)
        full.append(special + len(question) + tokens)
    return rows, counts, full


def _shortened(question: str, encoding: Any, most: int, backend: Any) -> str:
    """The question's beginning, of `most` tokens at the most."""
    if len(encoding) <= most:
        return question
    end = encoding.offsets[most - 1][1]
    # cut inside a word, or inside a character of several bytes, it may have more tokens than before
    while len(backend.encode(question[:end], add_special_tokens=False)) > most:
        end -= 1
    return question[:end]


def _context_row(encoding: Any, of_context: NDArray[np.bool_]) -> Row:
    offsets = np.array(encoding.offsets, np.int32).reshape(-1, 2)
    inside = of_context & (offsets[:, 1] > offsets[:, 0])  # some tokens are of no character
    starts, ends = (np.where(inside, offsets[:, k], -1) for k in (0, 1))
    return Row(encoding.ids, encoding.type_ids, {"starts": starts, "ends": ends})


def word_rows(sentences: Sequence[tuple[str, ...]], backends: Backends, max_length: int, stride: int) -> Rows:
    """Rows of a sentence's words, with the word that each token begins; every word in one row alone.

    Args:
        sentences: the words of each example.
        backends: of the tokenizer.
        max_length: of a row.
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
    """For each window the word that each token begins, −1 where it begins none or another row has it.

    A word in two windows belongs to the one where its first token is farther from the ends.
    """
    words = [[word for word in window.word_ids if word is not None] for window in windows]
    real = [np.array([word is not None for word in window.word_ids]) for window in windows]
    # windows follow each other, each beginning with the `stride` last tokens of the one before
    begun = _begun([*words[0], *(word for own in words[1:] for word in own[stride:])])
    found = [np.full(len(mask), -1) for mask in real]
    sizes = [len(own) for own in words]
    firsts = np.concatenate([[0], np.cumsum([size - stride for size in sizes[:-1]])]).astype(np.int64)
    best = np.full(len(begun), -1)
    owner = np.zeros(len(begun), np.int64)
    for number, (first, size) in enumerate(zip(firsts, sizes, strict=True)):
        places = np.arange(first, first + size)
        away = np.minimum(places - first, first + size - 1 - places)
        nearer = away > best[places]
        owner[places[nearer]], best[places[nearer]] = number, away[nearer]
    for number, (first, size, mask) in enumerate(zip(firsts, sizes, real, strict=True)):
        places = np.arange(first, first + size)
        found[number][mask] = np.where(owner[places] == number, begun[places], -1)
    return found


def _begun(words: list[int]) -> NDArray[np.int64]:
    """The word that each token begins, −1 where it goes on with one."""
    found = np.array(words, np.int64)
    found[1:][found[1:] == found[:-1]] = -1
    return found
