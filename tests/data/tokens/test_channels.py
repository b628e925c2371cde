"""What is kept of each token beside its id, and what decides on the rows: in the cache and in its key."""

from __future__ import annotations

import numpy as np

from tests.support.tiny_tokenizers import tiny_tokenizer
from tests.support.windows import WORDS, span_rows, span_task, tag_task
from weft.data import load_split, tokenize
from weft.data.tokens.encode import stride_of
from weft.data.tokens.tokens import in_memory
from weft.tasks import Task


def entry_of(task, tmp_path, max_length=16, name="wordpiece"):
    return tokenize(load_split(task, "train"), tiny_tokenizer(name), max_length, tmp_path)


SENTENCES = [list(WORDS) * 3, ["x"], list(WORDS)]
CONTEXTS = [("who?", " ".join(WORDS * 4)), ("why?", "x"), ("x", "the cat's hat,")]


def assert_same(one, other):
    assert len(one) == len(other)
    for name in ("lengths", "row_lengths", "row_counts", "full_lengths"):
        assert np.array_equal(getattr(one, name), getattr(other, name)), name
    for row in range(len(one.row_lengths)):
        assert np.array_equal(one.ids(row), other.ids(row))
        for name in ("types", "marks"):
            mine, its = getattr(one, name)(row), getattr(other, name)(row)
            assert (mine is None) == (its is None)
            assert mine is None or np.array_equal(mine, its)
    assert one._channels.keys() == other._channels.keys()
    for name, values in one._channels.items():
        assert np.array_equal(values, other._channels[name]), name
        assert values.dtype == other._channels[name].dtype


def marked_task(rows):
    marks = [{"text": 0, "start": "s1", "end": "e1"}, {"text": 1, "start": "s2", "end": "e2"}]
    return Task("m", "marked", size=2, texts=("a", "b"), marks=marks, files={"train": rows})


MARKED = [
    {"a": "the cat's hat", "b": "a cat", "s1": 4, "e1": 9, "s2": 2, "e2": 5, "label": k} for k in (0, 1)
]


def test_the_cache_keeps_every_channel(tmp_path):
    tasks = [
        (span_task(span_rows(CONTEXTS), 2), {"starts", "ends"}),
        (tag_task(SENTENCES, 2), {"words"}),
        (marked_task(MARKED), {"marks"}),
        (Task("p", "similarity", texts=("a", "b"), files={"train": MARKED}), set()),
    ]
    for task, channels in tasks:
        split = load_split(task, "train")
        fresh = in_memory(split, tiny_tokenizer("wordpiece"), 16)
        once = entry_of(task, tmp_path)
        again = entry_of(task, tmp_path)
        assert set(fresh._channels) == channels
        assert once.key == again.key
        assert_same(fresh, once)
        assert_same(fresh, again)
        assert [once.target(i) for i in range(len(once))] == [fresh.target(i) for i in range(len(fresh))]


def test_what_decides_on_rows_decides_on_the_key(tmp_path):
    pairs = [{"a": "the cat", "b": "a dog", "label": 0}]
    elsewhere = [{**row, "e1": row["e1"] - 1} for row in MARKED]
    two = [{"a": "the cat", "b": "a dog", "c": "old", "d": "red", "label": 0}]
    keys = [
        entry_of(task, tmp_path, length).key
        for task, length in [
            (span_task(span_rows(CONTEXTS), 2), 16),
            (span_task(span_rows(CONTEXTS), 3), 16),
            (span_task(span_rows(CONTEXTS), 2), 18),
            (tag_task(SENTENCES, 2), 16),
            (tag_task(SENTENCES, 1), 16),
            (marked_task(MARKED), 16),
            (marked_task(elsewhere), 16),
            (Task("p", size=2, texts=("a", "b"), files={"train": pairs}), 16),
            (Task("p", size=2, texts=("a", "b"), apart=True, files={"train": pairs}), 16),
            (Task("p", "choose", texts=("a",), choices=("b", "c", "d"), files={"train": two}), 16),
            (Task("p", "choose", texts=("a", "b"), choices=("c", "d"), files={"train": two}), 16),
        ]
    ]
    assert len(set(keys)) == len(keys)
    # the usual stride, given or not, is the same entry
    usual = stride_of(None, "context", 16, "s")
    assert (
        entry_of(span_task(span_rows(CONTEXTS), None), tmp_path).key
        == entry_of(span_task(span_rows(CONTEXTS), usual), tmp_path).key
    )
