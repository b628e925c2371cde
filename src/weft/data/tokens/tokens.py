"""Tokens: a split tokenized once, into arrays that later runs map into memory."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from weft.data.readers.example import ExampleRows
from weft.data.splits.split import Split
from weft.data.tokens.backends import backend_of, backends_of
from weft.data.tokens.cache import FORMAT, Arrays, open_entry, write_pieces, written_once
from weft.data.tokens.encode import CHANNELS, Pieces, Progress, encode, gives_types, stride_of
from weft.errors import WeftError
from weft.tasks.kinds import KINDS
from weft.utils.cache_folder import cache_folder

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


class Tokens:
    """The token ids of a split's examples, in the split's order, mapped into memory.

    An example has one row or several.

    Attributes:
        key: the sha256 of everything they depend on: texts, labels, tokenizer and settings.
        split: the examples.
        lengths: the length of each example's longest row, special tokens included, [n].
        row_lengths: the length of each row, [R].
        row_counts: the number of rows of each example, [n].
        full_lengths: the length of each example's longest row before truncation or windowing, [n].
        labels: the split's n labels, or None.
        offsets: the start of each row among all tokens, and the end of the last row, [R + 1].
        arrays: the arrays that these tokens were made from, by name.
        kept: a cache in which callers store what they derive from the examples.
    """

    def __init__(self, key: str, arrays: Arrays, split: Split) -> None:
        self.key, self.split, self.labels = key, split, split.labels
        self.arrays = arrays
        self._ids, self._types, self._marks = arrays["ids"], arrays.get("types"), arrays.get("marks")
        self.offsets = self._offsets = arrays["offsets"]
        self.kept: dict[object, Any] = {}
        self._channels = {name: arrays[name] for name in CHANNELS if name in arrays}
        self.full_lengths: NDArray[np.integer] = arrays["full_lengths"]
        self.row_lengths: NDArray[np.int64] = np.diff(self._offsets)
        first_rows = arrays.get("first_rows")
        self._first_rows = first_rows
        if first_rows is None:
            self.lengths = self.row_lengths
            # one number, as often as there are rows: millions of ones would be held for nothing
            self.row_counts: NDArray[np.int64] = np.broadcast_to(np.int64(1), self.row_lengths.shape)
        else:
            self.lengths = np.maximum.reduceat(self.row_lengths, first_rows[:-1])
            self.row_counts = np.diff(first_rows)

    def __len__(self) -> int:
        return len(self.lengths)

    @property
    def has_types(self) -> bool:
        """Whether any row has a token of type 1."""
        return self._types is not None

    @property
    def has_marks(self) -> bool:
        """Whether spans of the texts are marked."""
        return self._marks is not None

    def rows_of(self, i: int) -> range:
        """Return the rows of example i."""
        if self._first_rows is None:
            return range(i, i + 1)
        return range(int(self._first_rows[i]), int(self._first_rows[i + 1]))

    def rows_of_many(self, index: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the rows of several examples, one example after the other."""
        if self._first_rows is None:
            return index
        counts = self.row_counts[index]
        # count within each example, starting at its first row
        ends = np.cumsum(counts)
        return np.repeat(self._first_rows[index] - ends + counts, counts) + np.arange(counts.sum())

    def in_pieces(self, most: int) -> tuple[Tokens, NDArray[np.int64]]:
        """Cut each example of more than `most` rows into several, which share these tokens.

        Returns:
            The tokens of p examples; and the number of the first of them that each example became, and p,
            [n + 1].
        """
        first_rows = np.arange(len(self) + 1) if self._first_rows is None else self._first_rows
        counts = -(-self.row_counts // most)
        starts = np.concatenate([[0], np.cumsum(counts)])
        within = np.arange(starts[-1]) - np.repeat(starts[:-1], counts)
        finer = np.append(np.repeat(first_rows[:-1], counts) + most * within, first_rows[-1])
        full_lengths = np.repeat(self.full_lengths, counts)
        arrays = {"offsets": self._offsets, "full_lengths": full_lengths, "first_rows": finer}
        arrays |= {name: flat for name in ("ids", "types", "marks") if (flat := self.flat(name)) is not None}
        return Tokens(self.key, arrays, self.split), starts

    @property
    def one_row_each(self) -> bool:
        """Whether every example has exactly one row."""
        return self._first_rows is None

    def flat(self, name: str) -> NDArray[np.integer] | None:
        """`ids`, `types` or `marks` of all rows, concatenated, [tokens]; None if there are none."""
        return {"ids": self._ids, "types": self._types, "marks": self._marks}[name]

    def ids(self, row: int) -> NDArray[np.integer]:
        """The token ids of a row, [length]."""
        return self._ids[self._offsets[row] : self._offsets[row + 1]]

    def types(self, row: int) -> NDArray[np.integer] | None:
        """The token types of a row, [length]; None if all tokens of the split have type 0."""
        return None if self._types is None else self._types[self._offsets[row] : self._offsets[row + 1]]

    def marks(self, row: int) -> NDArray[np.integer] | None:
        """The marks that contain each token of a row, [length]; None if nothing is marked."""
        return None if self._marks is None else self._marks[self._offsets[row] : self._offsets[row + 1]]

    def example(self, i: int) -> ExampleRows:
        """Return the rows of example i."""
        return ExampleRows(self.split.texts[i], self.rows_of(i), self._offsets, self._channels)

    def examples(self, which: Sequence[int]) -> Sequence[ExampleRows]:
        """Return several examples lazily: each is built when it is read, and most kinds read none."""
        return _Examples(self, which)

    def is_truncated(self, i: int) -> bool:
        """Whether a part of example i was left out; a text that is cut into windows is read completely."""
        cut = bool(self.full_lengths[i] > self.lengths[i])
        return cut and KINDS[self.split.task.kind].windows is None

    def target(self, i: int) -> object:
        """Return the training target of example i."""
        task = self.split.task
        assert self.labels is not None
        return KINDS[task.kind]().target(self.labels[i], task, self.example(i))


class _Examples(Sequence[ExampleRows]):
    def __init__(self, tokens: Tokens, which: Sequence[int]) -> None:
        self._tokens, self._which = tokens, which

    def __len__(self) -> int:
        return len(self._which)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return _Examples(self._tokens, self._which[index])
        return self._tokens.example(self._which[index])


def tokenize(
    split: Split,
    tokenizer: PreTrainedTokenizerBase,
    max_length: int,
    cache: str | Path | None = None,
    progress: Progress | None = None,
) -> Tokens:
    """Tokenize a split, or read its tokens from the cache.

    Args:
        split: the n examples.
        tokenizer: a fast tokenizer.
        max_length: longer rows are truncated, in a pair the longer text first; contexts and sentences of
            words become several rows.
        cache: the folder of the cache; default $WEFT_CACHE, else ~/.cache/weft.
        progress: called with (examples done, n) during tokenization.
    """
    folder = cache_folder(cache)
    check_room(split, tokenizer, max_length)
    name = tokenizer_fingerprint(tokenizer)
    key = _key(split, name, max_length)
    arrays = open_entry(folder, key)
    if arrays is None:
        about = {"task": split.task.name, "split": split.split, "max_length": max_length, "tokenizer": name}
        # of several runs that begin at once, such as those of a grid, one tokenizes and the others wait
        with written_once(folder, key):
            arrays = open_entry(folder, key)
            if arrays is None:
                pieces = Pieces(split, tokenizer, max_length, progress)
                write_pieces(folder, key, pieces, lambda: pieces.names, about)
                arrays = open_entry(folder, key)
    if arrays is None:
        raise WeftError(
            f"the cache entry {str(folder / 'tokens' / key)!r} has disappeared or is damaged; try again"
        )
    return Tokens(key, arrays, split)


def in_memory(split: Split, tokenizer: PreTrainedTokenizerBase, max_length: int) -> Tokens:
    """Tokenize a few examples without the cache."""
    check_room(split, tokenizer, max_length)
    return Tokens("", encode(split, tokenizer, max_length), split)


def check_room(split: Split, tokenizer: PreTrainedTokenizerBase, max_length: int) -> None:
    """Refuse a max_length that leaves no room for text in a row."""
    backend_of(tokenizer)
    kind = KINDS[split.task.kind]()
    one_text = (
        split.task.apart or kind.windows == "words" or (len(split.task.texts) == 1 and not split.task.choices)
    )
    special = tokenizer.num_special_tokens_to_add(pair=not one_text)
    if max_length <= special:
        raise WeftError(
            f"max_length {max_length} leaves no room for text beside {special} special tokens; raise it"
        )


def tokenizer_fingerprint(tokenizer: PreTrainedTokenizerBase) -> str:
    """Return the sha256, in hexadecimal, of everything that decides on the ids of a text."""
    state = backends_of(tokenizer).plain.to_str()
    settings = f"{tokenizer.truncation_side} {gives_types(tokenizer)} "
    return hashlib.sha256((settings + state).encode()).hexdigest()


def _key(split: Split, tokenizer: str, max_length: int) -> str:
    task, kind = split.task, KINDS[split.task.kind]()
    settings = {"format": FORMAT, "tokenizer": tokenizer, "max_length": max_length, "rows": len(split)}
    # everything that decides on an example's rows and on what is stored per token
    settings["features"] = [kind.windows, kind.channels, task.apart, bool(task.choices), len(task.texts)]
    settings["stride"] = stride_of(task.stride, kind.windows, max_length, task.name)
    digest = hashlib.sha256(json.dumps(settings, sort_keys=True).encode())
    for texts in split.texts:
        digest.update(b"%d." % len(texts))
        for text in texts:
            data = text.encode()
            # the length in front of each text makes the boundaries unambiguous
            digest.update(b"%d:" % len(data))
            digest.update(data)
    for values in (split.labels, split.marks):
        for value in values or ():
            digest.update(repr(value).encode() + b";")
        digest.update(b"|")
    return digest.hexdigest()
