"""Copies of a tokenizer's backend: made once, never changed, and new ones after a change of the tokenizer."""

from __future__ import annotations

import copy
import gc
import hashlib
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import normalizers, pre_tokenizers, processors

from tests.support.every_kind import rows_of_kind, task_of_kind
from tests.support.more import examples
from tests.support.tiny_run import WORDS
from tests.support.tiny_tokenizers import TOKENIZERS, tiny_tokenizer
from weft.data import load_split
from weft.data.tokens import backends as module
from weft.data.tokens.backends import MOST, Cut, backends_of
from weft.data.tokens.tokens import check_room, in_memory, tokenizer_fingerprint
from weft.errors import WeftError
from weft.tasks import Task

LONG = " ".join(WORDS * 3)


@pytest.fixture
def copies(monkeypatch):
    """The backends that were copied, one after the other."""
    found, plain = [], module.copied

    def copied(backend):
        found.append(backend)
        return plain(backend)

    monkeypatch.setattr(module, "copied", copied)
    return found


def own(name="words"):
    """A tokenizer that no other test knows."""
    return copy.deepcopy(tiny_tokenizer(name))


def split_of(texts):
    task = Task("x", size=2, files={"train": [{"text": text, "label": 0} for text in texts]})
    return load_split(task, "train")


def ids_of(tokenizer, max_length, texts=(LONG, "a cat")):
    tokens = in_memory(split_of(texts), tokenizer, max_length)
    return [tokens.ids(i).tolist() for i in range(len(texts))]


def state(tokenizer):
    return tokenizer.backend_tokenizer.to_str()


def test_nothing_is_copied_in_a_second_call(copies):
    tokenizer = own()
    ids_of(tokenizer, 8, ["a cat"])
    assert len(copies) == 1  # nothing was cut
    ids_of(tokenizer, 8)
    assert len(copies) == 2
    for _ in range(3):
        ids_of(tokenizer, 8)
        in_memory(load_split(task_of_kind("tag"), "train"), tokenizer, 24)
        in_memory(load_split(task_of_kind("span"), "train"), tokenizer, 24)
        tokenizer_fingerprint(tokenizer)
    assert len(copies) == 4


@pytest.mark.parametrize("name", TOKENIZERS)
def test_it_is_only_read(name):
    tokenizer = own(name)
    expected = {n: tokenizer([LONG, "a cat"], truncation=True, max_length=n)["input_ids"] for n in (7, 12)}
    backend = tokenizer.backend_tokenizer
    backend.enable_truncation(5, strategy="only_first", direction="left")
    backend.enable_padding(length=9)
    before = state(tokenizer)
    found = {n: ids_of(tokenizer, n) for n in (7, 12)}
    assert found == expected
    name = tokenizer_fingerprint(tokenizer)
    assert state(tokenizer) == before
    backend.no_truncation()
    backend.no_padding()
    types = "token_type_ids" in tokenizer.model_input_names
    text = f"{tokenizer.truncation_side} {types} {state(tokenizer)}"
    assert name == hashlib.sha256(text.encode()).hexdigest()


def add_token(tokenizer):
    tokenizer.add_tokens(["cats"])


def add_known_word(tokenizer):
    tokenizer.add_special_tokens({"additional_special_tokens": ["cat"]})


def lower_case(tokenizer):
    tokenizer.backend_tokenizer.normalizer = normalizers.Lowercase()


def split_letters(tokenizer):
    tokenizer.backend_tokenizer.pre_tokenizer = pre_tokenizers.Split("", "isolated")


def other_ends(tokenizer):
    tokenizer.backend_tokenizer.post_processor = processors.BertProcessing(("[CLS]", 2), ("[SEP]", 3))


def other_side(tokenizer):
    tokenizer.truncation_side = "left"


def other_unknown(tokenizer):
    tokenizer.backend_tokenizer.model.unk_token = "the"


def other_backend(tokenizer):
    tokenizer._tokenizer = copy.deepcopy(tokenizer.backend_tokenizer)
    tokenizer._tokenizer.normalizer = normalizers.Replace("dog", "cat")


@pytest.mark.parametrize(
    "change",
    [
        *(add_token, add_known_word, lower_case, split_letters, other_ends, other_side, other_unknown),
        other_backend,
    ],
)
def test_a_change_is_noticed(change):
    tokenizer = own()
    texts = [LONG, "cats and the Cat see zebras"]
    before = ids_of(tokenizer, 9, texts)
    change(tokenizer)
    found = ids_of(tokenizer, 9, texts)
    expected = tokenizer(texts, truncation=True, max_length=9)["input_ids"]
    assert found == expected
    if change is not add_known_word:  # the same ids by another way
        assert found != before
    assert backends_of(tokenizer) is backends_of(tokenizer)


def test_few_ways_of_cutting_are_kept():
    backends = backends_of(own())
    cuts = [Cut(length, "longest_first", "right") for length in range(5, 5 + 2 * MOST)]
    first = backends.cutting(cuts[0])
    assert backends.cutting(cuts[0]) is first
    for cut in cuts:
        assert len(backends.cutting(cut).encode(LONG)) == cut.max_length
    assert len(backends._cut) == MOST
    assert backends.cutting(cuts[0]) is not first
    assert len(first.encode(LONG)) == 5


def test_they_live_as_long_as_the_tokenizer():
    tokenizer = own()
    backends = weakref.ref(backends_of(tokenizer))
    del tokenizer
    gc.collect()
    assert backends() is None


def test_threads_that_ask_at_once_get_the_same(copies):
    tokenizer = own()
    barrier = threading.Barrier(8)

    def ask(number):
        barrier.wait()
        backends = backends_of(tokenizer)
        return backends, backends.cutting(Cut(6 + number % 2, "longest_first", "right"))

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(ask, range(8)))
    assert len({id(backends) for backends, _ in found}) == 1
    assert len({id(cutting) for _, cutting in found}) == 2
    assert len(copies) == 3


words = st.lists(st.sampled_from(WORDS), min_size=1, max_size=30).map(" ".join)
WORK = st.tuples(st.integers(12, 40), st.sampled_from(["plain", "span", "tag"]), st.lists(words, min_size=1))


@settings(max_examples=examples(8))
@given(st.lists(WORK, min_size=8, max_size=8))
def test_threads_cut_at_lengths_of_their_own(work):
    tokenizer = own("wordpiece")

    def tokens_of(one):
        max_length, kind, texts = one
        if kind == "plain":
            split = split_of(texts)
        else:
            changes = {"stride": None, "files": {"train": rows_of_kind(kind, len(texts), max_length)}}
            split = load_split(task_of_kind(kind, **changes), "train")
        found = in_memory(split, tokenizer, max_length)
        return [found.ids(row).tolist() for row in range(len(found.row_lengths))]

    expected = [tokens_of(one) for one in work]
    with ThreadPoolExecutor(8) as pool:
        for _ in range(2):
            assert list(pool.map(tokens_of, work)) == expected


def test_asking_for_room_changes_nothing():
    tokenizer = own()
    before = state(tokenizer)
    check_room(split_of(["a cat"]), tokenizer, 8)
    assert state(tokenizer) == before


def test_a_part_that_is_python_code_is_refused():
    """RoFormer's tokenizer cuts Chinese words by a pre-tokenizer of its own."""

    class Whole:
        def pre_tokenize(self, text):
            pass

    tokenizer = copy.deepcopy(tiny_tokenizer("words"))
    tokenizer.backend_tokenizer.pre_tokenizer = pre_tokenizers.PreTokenizer.custom(Whole())
    with pytest.raises(WeftError, match="a part of this tokenizer is Python code"):
        backends_of(tokenizer)
