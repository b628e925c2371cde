"""Requests that would need gigabytes are refused with their place, by whichever way they come."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

import weft
from tests.support.every_kind import task_of_kind
from tests.support.predicting import piped, predict
from tests.support.tiny import scramble
from weft.errors import WeftError
from weft.inference.limits import CHARACTERS, VARIABLE, most_characters
from weft.tasks.kinds.candidates import PLACEHOLDER, characters_of_choices, rows_of_choices

NAMES = ("classify", "apart", "tag", "span", "choose", "put_in")


@pytest.fixture(scope="module")
def model(folder):
    return scramble(weft.Model(folder, [task_of_kind(name) for name in NAMES], "lora", max_length=24)).eval()


@pytest.fixture
def few(monkeypatch):
    monkeypatch.setenv(VARIABLE, "100")


LONG = "the cat " * 13  # 104 characters
TOO_LONG = {
    "classify": LONG,
    "apart": ("the cat " * 7, "a dog " * 10),
    "tag": LONG.split() * 2,
    "span": ("the cat", LONG),
    "choose": ("the cat sees", ["a dog"] * 7),  # 7 rows of 17 characters
    "put_in": ("the cat", f"a {PLACEHOLDER} {PLACEHOLDER}", ["now"] * 3),
}


@pytest.mark.parametrize("name", TOO_LONG)
@pytest.mark.usefixtures("few")
def test_every_kind_has_a_limit(model, name):
    for call in (
        lambda: model.predict([("classify", "the cat"), (name, TOO_LONG[name])]),
        lambda: list(model.predict_stream([("classify", "the cat"), (name, TOO_LONG[name])])),
    ):
        with pytest.raises(
            WeftError, match=rf"request 2: .* \d+ characters; expected at most 100: .*{VARIABLE}"
        ):
            call()
    with pytest.raises(WeftError, match=r"text 1: .* \d+ characters; expected at most 100"):
        model.predict_all([TOO_LONG[name]], tasks=[name])


@pytest.mark.usefixtures("few")
def test_vectors_have_a_limit(model):
    assert len(model.embed(["the cat", LONG[:100]])) == 2
    with pytest.raises(WeftError, match="text 2: it has 104 characters; expected at most 100"):
        model.embed(["the cat", LONG])


def test_nobody_comes_near_it_by_accident(model):
    """A novel is answered; the limit itself is just allowed, and one character more is not."""
    assert most_characters() == CHARACTERS == 1_000_000
    assert model.predict("classify", "a" * CHARACTERS)["label"] in ("no", "yes")
    with pytest.raises(WeftError, match="it has 1,000,001 characters; expected at most 1,000,000"):
        model.predict("classify", "a" * (CHARACTERS + 1))
    with pytest.raises(WeftError, match="it has 1,200,001 characters"):
        model.predict("apart", ("a" * 600_000, "b" * 600_000))


@pytest.mark.parametrize("value", ["", "0", "-5", "1e6", "many", "10.5"])
def test_a_limit_that_is_no_number(model, monkeypatch, value):
    monkeypatch.setenv(VARIABLE, value)
    with pytest.raises(WeftError, match=rf"{VARIABLE} is {value!r}; expected a number, such as 1000000"):
        model.predict("classify", "the cat")


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize("source", ["jsonl", "csv", "txt", "-", "text"])
def test_the_command_names_the_line_and_can_skip_it(model, tmp_path, capsys, monkeypatch, source):
    bundle = model.save(tmp_path / "bundle")
    texts = ["the cat", LONG, "a dog"]
    lines = [json.dumps({"text": text}) for text in texts]
    if source == "csv":
        lines = ["text", *texts]
    elif source == "txt":
        lines = texts
    data = "".join(f"{line}\n" for line in lines)

    def arguments():
        if source == "text":
            return [part for text in texts for part in ("--text", text)]
        if source == "-":
            return [piped(monkeypatch, data.encode()), "--format", "jsonl"]
        (tmp_path / f"rows.{source}").write_text(data)
        return [tmp_path / f"rows.{source}"]

    code, rows, told = predict(capsys, bundle, "--task", "classify", *arguments())
    assert (code, len(rows)) == (2, 1)
    assert "characters; expected at most 100: shorten or split it" in told
    assert "--on-error skip" in told
    code, rows, told = predict(capsys, bundle, "--task", "classify", "--on-error", "skip", *arguments())
    assert (code, ["error" in row for row in rows]) == (1, [False, True, False])


def test_messages_do_not_repeat_megabytes(model):
    """A value of the wrong form is shown by its beginning."""
    for wrong in (["x" * 500_000, 3], {"other": "x" * 500_000}, "x" * 500_000):
        with pytest.raises(WeftError) as caught:
            model.predict([("choose", wrong)])
        assert len(str(caught.value)) < 500
    with pytest.raises(WeftError) as caught:
        model.predict([["x" * 500_000]])
    assert len(str(caught.value)) < 500


@given(
    st.lists(st.text("ab@", max_size=9), min_size=1, max_size=2),
    st.lists(st.text("ab", max_size=5), min_size=1, max_size=5),
    st.integers(0, 3),
)
def test_the_characters_of_choices_are_those_of_their_rows(texts, choices, placeholders):
    """Counted without making the rows; a placeholder and the space before a choice are counted roughly."""
    if len(texts) == 2:
        texts[1] += PLACEHOLDER * placeholders
    every = (*texts, *choices)
    rows = sum(len(text) for row in rows_of_choices(every, len(texts)) for text in row)
    counted = characters_of_choices(every, len(texts))
    assert rows - len(choices) <= counted <= rows + placeholders * len(PLACEHOLDER) * len(choices)
