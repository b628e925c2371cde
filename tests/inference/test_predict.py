from __future__ import annotations

import pytest
import torch

import weft
from tests.support.near import assert_near
from tests.support.tiny import TASKS
from weft.errors import WeftError
from weft.inference.predict import slabs as slabs_of

PAIR = weft.Task("pair", labels=("same", "other"), texts=("a", "b"))


@pytest.fixture(scope="module")
def model():
    return weft.Model("minilm", [*TASKS, PAIR], "lora", max_length=16)


def test_any_mix_and_order(model):
    requests = [
        ("a", "A short one."),
        ("pair", ("It rains.", "It is wet outside, and the street shines.")),
        ("c", "How many words are there in this rather long and winding sentence?"),
        ("b", "Another."),
        ["a", "A short one."],
    ]
    found = model.predict(requests)
    assert [answer["task"] for answer in found] == ["a", "pair", "c", "b", "a"]
    assert set(found[0]["probabilities"]) == {"no", "yes"}
    assert sum(found[0]["probabilities"].values()) == pytest.approx(1)
    assert found[0]["label"] == max(found[0]["probabilities"], key=found[0]["probabilities"].get)
    assert isinstance(found[2]["value"], float)
    alone = [model.predict([request])[0] for request in requests]
    for one, other in zip(found, alone, strict=True):
        numbers = (
            one.get("probabilities", {"v": one.get("value")}),
            other.get("probabilities", {"v": other.get("value")}),
        )
        assert numbers[0] == pytest.approx(numbers[1], abs=1e-5)


def test_the_model_is_left_in_eval_mode(model):
    model.train()
    one, two = model.predict([("a", "x y z")]), model.predict([("a", "x y z")])
    assert one == two  # no dropout
    assert not any(module.training for module in model.modules())


def test_answers_are_those_of_a_plain_forward_pass(model):
    tokens = model.tokenizer("It rains.", "It is wet.", return_tensors="pt")
    with torch.no_grad():
        logits = model.eval().run(**tokens, task=torch.tensor([4])).logits[0]
    found = model.predict([("pair", ("It rains.", "It is wet."))])[0]
    assert list(found["probabilities"].values()) == pytest.approx(logits.softmax(0).tolist(), abs=1e-6)


def test_nothing_to_answer(model):
    assert model.predict([]) == []


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        (("z", "x"), "request 1: task 'z' is not in this model"),
        (("a", ("x", "y")), "request 1: task 'a' takes one text"),
        (("pair", "x"), "request 1: task 'pair' takes a pair of texts; found 'x'"),
        (("pair", ("x", " ")), "takes a pair of texts"),
        (("a", ""), "takes one text; text is ''"),
        (("a", 3), "takes one text; text is 3"),
        (("a", "\ud83d"), "takes one text"),
        ("a", "expected \\(task, text\\)"),
    ],
)
def test_wrong_requests(model, request_, message):
    with pytest.raises(WeftError, match=message):
        model.predict([request_])


def test_many_requests_are_answered_in_slabs_and_in_order(model, monkeypatch):
    """Tokenized in another thread while the model answers those before; an error names its request."""
    texts = [f"Number {number} of many." for number in range(27)]
    requests = [(("a", "b", "c")[i % 3], text) for i, text in enumerate(texts)]
    expected = model.predict(requests)
    monkeypatch.setattr("weft.inference.predict.SLAB", 8)
    found = model.predict(requests)
    assert_near(found, expected)
    assert [len(slab) for slab in slabs_of(27)] == [2, 8, 8, 8, 1]
    assert slabs_of(0) == []
    with pytest.raises(WeftError, match="request 12: task 'a' takes one text"):
        model.predict([*requests[:11], ("a", 3), *requests[:5]])


@pytest.mark.parametrize("form", [iter, tuple, lambda requests: (one for one in requests)])
def test_requests_may_be_anything_that_gives_them(model, form):
    requests = [("a", "One."), ("pair", ("It rains.", "It is wet.")), ("c", "Three.")]
    assert_near(model.predict(form(requests)), model.predict(requests))


@pytest.mark.parametrize("wrong", [None, 3, "a", {"a": "One."}])
def test_requests_that_are_no_list(model, wrong):
    with pytest.raises(WeftError, match=r"requests: expected a list of \(task, text\)"):
        model.predict(wrong)
