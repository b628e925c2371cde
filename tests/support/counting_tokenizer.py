"""Texts to tokenize, and a tokenizer that counts what it is given."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from weft.data import load_split
from weft.tasks import Task

SINGLE = ["It rains.", "né ☂ 雨 [SEP] [PAD]", "word " * 40, "x", "antidisestablishmentarianism " * 9]
PAIRS = [(a, b) for a in SINGLE for b in SINGLE]


def split_of(texts, labels=None):
    texts = [(t,) if isinstance(t, str) else t for t in texts]
    names = tuple("ab"[: len(texts[0])])
    labels = [0] * len(texts) if labels is None else labels
    rows = [{**dict(zip(names, t, strict=True)), "label": y} for t, y in zip(texts, labels, strict=True)]
    return load_split(Task("x", size=2, texts=names, files={"train": rows}), "train")


class Counting:
    """A tokenizer that counts the rows its backend and the copies of that are given, and may fail at some."""

    def __init__(self, tokenizer, fail_at=None):
        self.inner, self.rows, self.fail_at = tokenizer, 0, fail_at
        self.backend_tokenizer = CountingBackend(tokenizer.backend_tokenizer, self)

    def __getattr__(self, name):
        return getattr(self.inner, name)


class CountingBackend:
    def __init__(self, inner, counting):
        self.inner, self.counting = inner, counting

    def __getattr__(self, name):
        return getattr(self.inner, name)

    def copied(self, plain):
        return CountingBackend(plain(self.inner), self.counting)

    def encode_batch_fast(self, batch):
        counting = self.counting
        counting.rows += len(batch)
        if counting.fail_at is not None and counting.rows >= counting.fail_at:
            raise KeyboardInterrupt
        return self.inner.encode_batch_fast(batch)


def entries(folder):
    return sorted((Path(folder) / "tokens").glob("*")) + sorted((Path(folder) / "tokens").glob(".*"))


def assert_same_as_the_tokenizer(found, texts, tokenizer, max_length):
    columns = [list(c) for c in zip(*((t,) if isinstance(t, str) else t for t in texts), strict=True)]
    expected = tokenizer(*columns, truncation="longest_first", max_length=max_length)
    full = tokenizer(*columns, truncation=False, verbose=False)["input_ids"]
    assert len(found) == len(texts)
    for i in range(len(found)):
        assert found.ids(i).tolist() == expected["input_ids"][i]
        types = found.types(i)
        assert (np.zeros(found.lengths[i]) if types is None else types).tolist() == expected[
            "token_type_ids"
        ][i]
    assert found.lengths.tolist() == list(map(len, expected["input_ids"]))
    assert found.full_lengths.tolist() == list(map(len, full))
