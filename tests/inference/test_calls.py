"""The forms of a call: one text, many, columns and frames; and what a wrong call says."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
import torch

import weft
from tests.support.frames import OBJECTS
from weft.errors import WeftError

TEXTS = ["A short one.", "Another, which is longer."]
PAIRS = [("It rains.", "It is wet."), ("It snows.", "It is warm.")]
TASKS = [
    weft.Task("one", labels=("no", "yes")),
    weft.Task("pair", labels=("same", "other"), texts=("a", "b")),
    weft.Task("words", "tag", texts="tokens", label="tags", labels=("O", "B-x")),
    weft.Task("choice", "choose", choices="choices"),
]


@pytest.fixture(scope="module")
def model():
    return weft.Model("minilm", TASKS, "lora", max_length=16)


def test_the_texts_of_one_task(model):
    expected = model.predict([("one", text) for text in TEXTS])
    assert model.predict("one", TEXTS) == expected
    assert model.predict("one", texts=iter(TEXTS), batch_size=1)[0]["label"] == expected[0]["label"]
    assert model.predict("one", np.array(TEXTS)) == expected
    assert model.predict("one", pa.array(TEXTS)) == expected
    assert model.predict("one", []) == []
    assert model.predict("one", TEXTS[0]) == model.predict([("one", TEXTS[0])])[0]
    assert model.predict("one", {"text": TEXTS[0]}) == model.predict("one", TEXTS[0])


def test_pairs_words_and_choices(model):
    assert model.predict("pair", PAIRS) == model.predict([("pair", pair) for pair in PAIRS])
    assert model.predict("pair", PAIRS[0]) == model.predict([("pair", PAIRS[0])])[0]
    assert model.predict("pair", [list(pair) for pair in PAIRS]) == model.predict("pair", PAIRS)
    assert model.predict("words", ("a", "cat")) == model.predict([("words", ["a", "cat"])])[0]
    assert len(model.predict("words", ["a cat", "a dog"])) == 2
    assert model.predict("choice", ("It rains.", ["so", "but"]))["choice"] in (0, 1)


def test_the_batch_size_may_still_come_second(model):
    requests = [("one", text) for text in TEXTS]
    assert len(model.predict(requests, 1)) == 2
    assert len(model.predict(requests, 1, "float32")) == 2
    with pytest.raises(WeftError, match="batch_size must be at least 1; found 0"):
        model.predict(requests, 0)


@pytest.mark.parametrize("made", sorted(set(OBJECTS) - {"list", "tuple"}))
def test_frames(model, made):
    frame = OBJECTS[made]([{"text": text, "more": 1} for text in TEXTS])
    assert model.predict("one", frame) == model.predict("one", TEXTS)
    pairs = OBJECTS[made]([{"a": a, "b": b} for a, b in PAIRS])
    assert model.predict("pair", pairs) == model.predict("pair", PAIRS)
    found = model.predict_all(frame, ["one"])
    assert [answer["one"]["label"] for answer in found] == [x["label"] for x in model.predict("one", TEXTS)]
    with pytest.raises(WeftError, match="the data frame has no column 'a', which task 'pair' reads"):
        model.predict("pair", frame)
    with pytest.raises(WeftError, match=r"pass a column of it, such as df\['text'\]"):
        model.embed(frame)
    with pytest.raises(WeftError, match="found a data frame without a task"):
        model.predict(frame)


def test_a_column_of_pandas(model):
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"text": TEXTS})
    assert model.predict("one", frame["text"]) == model.predict("one", TEXTS)
    assert torch.equal(model.embed(frame["text"]), model.embed(TEXTS))
    assert len(model.predict_all(frame["text"], "one")) == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["one"], r"the task 'one' without texts; write model.predict\('one', \['text 1', …\]\)"),
        (["A text."], r"found 'A text.'; write model.predict\('one'"),
        ([TEXTS], r"request 1: expected \(task, text\); found 'A short one.', without a task; write"),
        ([TEXTS, "one"], r"expected the name of a task; found \['A short one.'"),
        (["oen", TEXTS], "task 'oen' is not in this model"),
        (["one", ("a", "b")], r"found a tuple, which means a pair; write several texts as a list"),
        (["pair", TEXTS], r"takes pairs of texts; .*\[\('text a', 'text b'\), …\]"),
        (["pair", "A text."], "task 'pair' takes a pair of texts; found 'A text.'"),
        (["one", object()], "expected a text or a list of texts"),
        (["one", [None]], "request 1: task 'one' takes one text"),
    ],
)
def test_wrong_calls_say_what_to_write(model, arguments, message):
    with pytest.raises(WeftError, match=message):
        model.predict(*arguments)


def test_one_text_alone(model):
    assert model.predict_all(TEXTS[0], "one") == model.predict_all([TEXTS[0]], ["one"])[0]
    assert model.predict_all({"text": TEXTS[0]}, ["one"]) == model.predict_all(TEXTS[0], "one")
    alone = model.embed(TEXTS[0], task="one", normalize=True)
    assert alone.shape == (384,)
    torch.testing.assert_close(alone, model.embed(TEXTS, task="one", normalize=True)[0])
