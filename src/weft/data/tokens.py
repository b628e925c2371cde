"""Tokenising a split once, into arrays that every later run maps into memory."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from weft.data.cache import FORMAT, Arrays, cache_folder, open_entry, write_entry
from weft.data.split import Split
from weft.errors import WeftError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

Progress = Callable[[int, int], None]

CHUNK = 4096
"""Rows that are tokenised at once: enough for all threads, few enough to hold as Python lists."""


class Tokens:
    """The token ids of a split's rows, in its order, mapped into memory.

    Attributes:
        key: the sha256 of what they follow from: texts, labels, tokenizer and settings.
        lengths: of each row, special tokens included, [n].
        full_lengths: what they were before truncation, [n].
        labels: the split's labels, n of them, or None.
    """

    def __init__(self, key: str, arrays: Arrays, labels: list[object] | None) -> None:
        self.key, self.labels = key, labels
        self._ids, self._types = arrays["ids"], arrays.get("types")
        self.full_lengths: NDArray[np.integer] = arrays["full_lengths"]
        self.lengths: NDArray[np.int64] = np.diff(arrays["offsets"])
        self._offsets = arrays["offsets"]

    def __len__(self) -> int:
        return len(self.lengths)

    @property
    def has_types(self) -> bool:
        """Whether any row has a token of type 1."""
        return self._types is not None

    def ids(self, i: int) -> NDArray[np.integer]:
        """The token ids of row i, [length]."""
        return self._ids[self._offsets[i] : self._offsets[i + 1]]

    def types(self, i: int) -> NDArray[np.integer] | None:
        """The token types of row i, [length]; None where every row has type 0 alone."""
        return None if self._types is None else self._types[self._offsets[i] : self._offsets[i + 1]]


def tokenise(
    split: Split,
    tokenizer: PreTrainedTokenizerBase,
    max_length: int,
    cache: str | Path | None = None,
    progress: Progress | None = None,
) -> Tokens:
    """The tokens of a split, from the cache if they are there.

    Args:
        split: the texts, n rows.
        tokenizer: a fast one.
        max_length: longer rows are cut, of a pair the longer text first.
        cache: its folder; else $WEFT_CACHE, else ~/.cache/weft.
        progress: called with (rows done, n) while it tokenises.
    """
    backend = _backend(tokenizer)
    special = tokenizer.num_special_tokens_to_add(pair=len(split.task.texts) == 2)
    if max_length <= special:
        raise WeftError(
            f"max_length {max_length} leaves no room for text beside {special} special tokens; raise it"
        )
    folder = cache_folder(cache)
    name = tokenizer_fingerprint(tokenizer)
    key = _key(split, name, max_length)
    arrays = open_entry(folder, key)
    if arrays is None:
        about = {"task": split.task.name, "split": split.split, "max_length": max_length, "tokenizer": name}
        write_entry(folder, key, _encode_all(split.texts, tokenizer, backend, max_length, progress), about)
        arrays = open_entry(folder, key)
    if arrays is None:
        raise WeftError(f"the cache entry {str(folder / 'tokens' / key)!r} vanished or broke; try again")
    return Tokens(key, arrays, split.labels)


def tokenizer_fingerprint(tokenizer: PreTrainedTokenizerBase) -> str:
    """The sha256 of all that decides which ids a text gets, in hexadecimal."""
    backend = _backend(tokenizer)
    with _bare(backend):
        state = backend.to_str()
    settings = f"{tokenizer.truncation_side} {_gives_types(tokenizer)} "
    return hashlib.sha256((settings + state).encode()).hexdigest()


def _backend(tokenizer: PreTrainedTokenizerBase) -> Any:
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None:
        raise WeftError(
            f"{type(tokenizer).__name__} is no fast tokenizer (it has no backend_tokenizer); "
            "expected an encoder with a tokenizer.json"
        )
    return backend


def _gives_types(tokenizer: PreTrainedTokenizerBase) -> bool:
    # RoBERTa's backend makes them too, but its model does not want them
    return "token_type_ids" in tokenizer.model_input_names


def _key(split: Split, tokenizer: str, max_length: int) -> str:
    settings = {"format": FORMAT, "tokenizer": tokenizer, "max_length": max_length, "rows": len(split)}
    digest = hashlib.sha256(json.dumps(settings, sort_keys=True).encode())
    for texts in split.texts:
        for text in texts:
            data = text.encode()
            # with its length before it, no text can run over into the next
            digest.update(b"%d:" % len(data))
            digest.update(data)
    for label in split.labels or ():
        digest.update(repr(label).encode() + b";")
    return digest.hexdigest()


def _encode_all(
    texts: list[tuple[str, ...]],
    tokenizer: PreTrainedTokenizerBase,
    backend: Any,
    max_length: int,
    progress: Progress | None,
) -> dict[str, NDArray[np.integer]]:
    """The arrays of a cache entry. Only one chunk is ever held as Python lists."""
    ids: list[NDArray[np.int32]] = []
    types: list[NDArray[np.int8]] = []
    lengths: list[NDArray[np.int64]] = []
    full_lengths: list[NDArray[np.int32]] = []
    with _bare(backend):
        for first in range(0, len(texts), CHUNK):
            chunk = texts[first : first + CHUNK]
            encodings, full = _encode(chunk, backend, max_length, tokenizer.truncation_side)
            full_lengths.append(full)
            rows = [encoding.ids for encoding in encodings]
            lengths.append(np.fromiter(map(len, rows), np.int64, len(rows)))
            ids.append(_flat(rows, np.int32))
            if _gives_types(tokenizer):
                types.append(_flat([encoding.type_ids for encoding in encodings], np.int8))
            if progress is not None:
                progress(first + len(chunk), len(texts))
    arrays: dict[str, NDArray[np.integer]] = {
        "ids": np.concatenate(ids),
        "offsets": np.concatenate([[0], np.cumsum(np.concatenate(lengths))]),
        "full_lengths": np.concatenate(full_lengths),
    }
    if any(chunk.any() for chunk in types):
        arrays["types"] = np.concatenate(types)
    return arrays


def _encode(
    texts: list[tuple[str, ...]], backend: Any, max_length: int, side: str
) -> tuple[list[Any], NDArray[np.int32]]:
    """The rows' encodings, cut to max_length, and their lengths before that, [n]."""
    batch = [row[0] if len(row) == 1 else row for row in texts]
    backend.no_truncation()
    encodings = backend.encode_batch_fast(batch)
    full = np.fromiter(map(len, encodings), np.int32, len(batch))
    # the few that are too long go again, so that the tokenizer itself decides what is cut
    long = np.flatnonzero(full > max_length).tolist()
    if long:
        backend.enable_truncation(max_length, strategy="longest_first", direction=side)
        for i, encoding in zip(long, backend.encode_batch_fast([batch[i] for i in long]), strict=True):
            encodings[i] = encoding
    return encodings, full


def _flat(rows: Sequence[Sequence[int]], dtype: Any) -> NDArray[Any]:
    return np.fromiter(chain.from_iterable(rows), dtype, sum(map(len, rows)))


@contextmanager
def _bare(backend: Any) -> Iterator[None]:
    """The backend without truncation and padding, whatever the last call left; afterwards as it was."""
    truncation, padding = backend.truncation, backend.padding
    backend.no_truncation()
    backend.no_padding()
    try:
        yield
    finally:
        backend.no_truncation()
        if truncation is not None:
            backend.enable_truncation(**truncation)
        if padding is not None:
            backend.enable_padding(**padding)
