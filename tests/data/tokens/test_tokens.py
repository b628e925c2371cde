import copy
from mmap import mmap

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.counting_tokenizer import (
    PAIRS,
    SINGLE,
    Counting,
    assert_same_as_the_tokenizer,
    entries,
    split_of,
)
from tests.support.more import examples
from weft.data import tokenize
from weft.data.tokens import encode as encoding
from weft.errors import WeftError


@pytest.mark.each_value
@pytest.mark.parametrize("max_length", [4, 5, 16, 33, 128])
@pytest.mark.parametrize("texts", [SINGLE, PAIRS], ids=["single", "pairs"])
@pytest.mark.parametrize("chunk", [2, 4096])
def test_the_tokenizer_itself_says_the_same(tokenizer, tmp_path, monkeypatch, texts, max_length, chunk):
    monkeypatch.setattr(encoding, "CHUNK", chunk)
    found = tokenize(split_of(texts), tokenizer, max_length, tmp_path)
    assert_same_as_the_tokenizer(found, texts, tokenizer, max_length)
    assert found.has_types == (texts is PAIRS)


printable = st.text(st.characters(exclude_categories=("Cs",)), min_size=1).filter(lambda t: t.strip())


@settings(max_examples=examples(25))
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
    with pytest.raises(WeftError, match="object is not a fast tokenizer"):
        tokenize(split_of(SINGLE), object(), 16, tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(WeftError, match=r"the token cache .* cannot be written: .*; set WEFT_CACHE"):
        tokenize(split_of(SINGLE), tokenizer, 16, tmp_path / "file")
