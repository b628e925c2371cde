import copy
from mmap import mmap
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.data import load_split, tokenize
from weft.data.tokens import encode as encoding
from weft.errors import WeftError
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


@pytest.mark.parametrize("max_length", [4, 5, 16, 33, 128])
@pytest.mark.parametrize("texts", [SINGLE, PAIRS], ids=["single", "pairs"])
@pytest.mark.parametrize("chunk", [2, 4096])
def test_the_tokenizer_itself_says_the_same(tokenizer, tmp_path, monkeypatch, texts, max_length, chunk):
    monkeypatch.setattr(encoding, "CHUNK", chunk)
    found = tokenize(split_of(texts), tokenizer, max_length, tmp_path)
    assert_same_as_the_tokenizer(found, texts, tokenizer, max_length)
    assert found.has_types == (texts is PAIRS)


printable = st.text(st.characters(exclude_categories=("Cs",)), min_size=1).filter(lambda t: t.strip())


@settings(max_examples=25)
@given(st.lists(st.tuples(printable, printable), min_size=1, max_size=5), st.integers(4, 40))
def test_any_text(tokenizer, tmp_path_factory, pairs, max_length):
    folder = tmp_path_factory.mktemp("cache")
    assert_same_as_the_tokenizer(
        tokenize(split_of(pairs), tokenizer, max_length, folder), pairs, tokenizer, max_length
    )


def test_it_is_mapped_and_cannot_be_written(tokenizer, tmp_path):
    found = tokenize(split_of(PAIRS), tokenizer, 32, tmp_path)
    base = found.ids(0)
    while isinstance(base, np.ndarray):
        base = base.base
    assert isinstance(base, mmap)
    assert not found.ids(0).flags.writeable
    assert found.ids(0).dtype == np.int32
    assert found.types(0).dtype == np.int8
    assert found.labels == [0] * len(PAIRS)


@pytest.mark.usefixtures("counted_copies")
def test_it_is_tokenized_once(tokenizer, tmp_path):
    counting = Counting(tokenizer)
    first = tokenize(split_of(SINGLE), counting, 128, tmp_path)
    assert counting.rows == len(SINGLE)
    again = tokenize(split_of(SINGLE), counting, 128, tmp_path)
    assert counting.rows == len(SINGLE)
    assert again.key == first.key
    assert all((again.ids(i) == first.ids(i)).all() for i in range(len(first)))
    assert len(entries(tmp_path)) == 1


@pytest.mark.usefixtures("counted_copies")
def test_only_long_rows_are_tokenized_again(tokenizer, tmp_path):
    counting = Counting(tokenizer)
    tokenize(split_of(SINGLE), counting, 32, tmp_path)
    assert counting.rows == len(SINGLE) + 2


@pytest.mark.usefixtures("counted_copies")
def test_whatever_matters_makes_another_entry(tokenizer, tmp_path):
    def other():
        from tokenizers import normalizers

        changed = copy.deepcopy(tokenizer)
        changed.backend_tokenizer.normalizer = normalizers.Lowercase()
        return changed

    keys = [
        tokenize(split, tok, max_length, tmp_path).key
        for split, tok, max_length in [
            (split_of(SINGLE), tokenizer, 16),
            (split_of(SINGLE), tokenizer, 17),
            (split_of(SINGLE), other(), 16),
            (split_of(SINGLE[::-1]), tokenizer, 16),
            (split_of([*SINGLE[:-1], SINGLE[-1] + "."]), tokenizer, 16),
            (split_of(SINGLE, [0, 0, 0, 0, 1]), tokenizer, 16),
            (split_of(["ab", "c"]), tokenizer, 16),
            (split_of(["a", "bc"]), tokenizer, 16),
        ]
    ]
    assert len(set(keys)) == len(keys) == len(entries(tmp_path))


def test_what_the_tokenizer_was_last_used_for_does_not_matter(tokenizer, tmp_path):
    backend = tokenizer.backend_tokenizer
    split = split_of(PAIRS)
    first = tokenize(split, tokenizer, 16, tmp_path)
    backend.enable_truncation(7, strategy="only_first")
    backend.enable_padding(length=20)
    before = (backend.truncation, backend.padding)
    try:
        again = tokenize(split, tokenizer, 16, tmp_path / "other")
        assert (backend.truncation, backend.padding) == before
    finally:
        backend.no_truncation()
        backend.no_padding()
    assert again.key == first.key
    assert again.lengths.tolist() == first.lengths.tolist()


def test_progress(tokenizer, tmp_path, monkeypatch):
    monkeypatch.setattr(encoding, "CHUNK", 2)
    calls = []
    for _ in range(2):
        tokenize(split_of(SINGLE), tokenizer, 16, tmp_path, progress=lambda *call: calls.append(call))
    assert calls == [(2, 5), (4, 5), (5, 5)]


@pytest.mark.usefixtures("counted_copies")
def test_a_tokenizer_whose_model_wants_no_types(tokenizer, tmp_path):
    plain = Counting(tokenizer)
    plain.model_input_names = ["input_ids", "attention_mask"]
    found = tokenize(split_of(PAIRS), plain, 16, tmp_path)
    assert not found.has_types
    assert found.types(0) is None
    assert found.key != tokenize(split_of(PAIRS), tokenizer, 16, tmp_path).key


def test_what_cannot_be(tokenizer, tmp_path):
    with pytest.raises(WeftError, match="max_length 2 leaves no room for text beside 2 special tokens"):
        tokenize(split_of(SINGLE), tokenizer, 2, tmp_path)
    with pytest.raises(WeftError, match="max_length 3 leaves no room for text beside 3 special tokens"):
        tokenize(split_of(PAIRS), tokenizer, 3, tmp_path)
    with pytest.raises(WeftError, match="object is no fast tokenizer"):
        tokenize(split_of(SINGLE), object(), 16, tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(WeftError, match=r"the token cache .* cannot be written: .*; give another folder"):
        tokenize(split_of(SINGLE), tokenizer, 16, tmp_path / "file")
