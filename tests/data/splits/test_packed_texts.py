"""Packed texts are the list that they were made of."""

from __future__ import annotations

import copy
import json
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

import weft
from weft.data.splits.packed_texts import PackedTexts
from weft.data.splits.split import load_split
from weft.data.splits.subset import rows_of

TEXT = st.text(max_size=6) | st.sampled_from(["", "\ud800", "é\x00", "日本"])
EQUAL = st.integers(0, 3).flatmap(lambda width: st.lists(st.tuples(*[TEXT] * width), max_size=6))
MIXED = st.lists(st.lists(TEXT, max_size=3).map(tuple), max_size=6)


@given(EQUAL | MIXED)
def test_they_are_the_list(texts):
    packed = PackedTexts(texts)
    assert len(packed) == len(texts)
    assert list(packed) == texts
    assert packed == texts
    assert [packed[i] for i in range(-len(texts), len(texts))] == texts + texts
    for cut in (slice(1, 3), slice(None, None, -1), slice(-2, None), slice(0, 0)):
        assert packed[cut] == texts[cut]
    for made in (copy.deepcopy(packed), pickle.loads(pickle.dumps(packed))):
        assert made == packed
    for wrong in (len(texts), -len(texts) - 1):
        with pytest.raises(IndexError):
            packed[wrong]


def test_they_differ_where_a_text_does():
    assert PackedTexts([("a",), ("b",)]) != [("a",), ("c",)]
    assert PackedTexts([("ab", "c")]) != [("a", "bc")]
    assert PackedTexts([("a",)]) != [("a",), ("a",)]
    assert (PackedTexts() == 3) is False
    assert repr(PackedTexts([("a",)] * 5)) == "PackedTexts([('a',), ('a',), ('a',)], …)"


def test_a_file_is_packed_and_its_messages_keep_their_values(tmp_path):
    rows = [{"text": f"text {at}", "label": at % 2, "name": at} for at in range(6)]
    (tmp_path / "good.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    task = weft.Task("t", labels=("no", "yes"), files={"train": tmp_path / "good.jsonl"}, id=("text",))
    split = load_split(task, "train")
    assert split.texts == [(row["text"],) for row in rows]
    assert split.ids == [(row["text"],) for row in rows]  # a column of texts may have a second use
    some = rows_of(split, [4, 1])
    assert isinstance(some.texts, PackedTexts)
    assert some.texts == [("text 4",), ("text 1",)]
    memory = [dict(row) for row in rows]
    task = weft.Task("t", labels=("no", "yes"), data={"train": memory})
    assert load_split(task, "train").texts == split.texts
    assert memory == rows  # rows of a user are never emptied
