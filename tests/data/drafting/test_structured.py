"""Kinds that several columns define."""

from __future__ import annotations

import pytest

from weft.data.drafting.column import profile
from weft.data.drafting.structured import find_structured

N = 40
TEXT = [f"some text of number {n} that is read" for n in range(N)]
CONTEXT = [f"a longer context that is shared by four questions, number {n // 4}, and ends" for n in range(N)]
ANSWERS = [{"text": ["a"], "answer_start": [0]} for _ in range(N)]
WORDS = [[f"w{n}", f"v{n}", "sees"] for n in range(N)]


def find(**values):
    return find_structured([profile(name, cells) for name, cells in values.items()], values)


def test_span():
    found = find(id=list(range(N)), context=CONTEXT, question=TEXT, answers=ANSWERS)
    assert (found.kind, found.texts, found.label) == ("span", ("question", "context"), "answers")
    assert found.with_cut == {"group": ["context"]}


@pytest.mark.parametrize("tags", [[["B-X", "O", "O"]] * N, [[1, 0, 0]] * N])
def test_tag(tags):
    found = find(id=list(range(N)), tokens=WORDS, ner_tags=tags)
    assert (found.kind, found.texts, found.label) == ("tag", ("tokens",), "ner_tags")


def test_tags_in_texts():
    found = find(sentence=[" ".join(words) for words in WORDS], tags=["B-X O O", "O O O"] * (N // 2))
    assert (found.kind, found.texts, found.label) == ("tag", ("sentence",), "tags")


@pytest.mark.parametrize(
    ("labels", "values"),
    [(["0", "1"], {}), (["1", "2"], {"1": 0, "2": 1}), (["A", "B"], {"A": 0, "B": 1})],
)
def test_choices(labels, values):
    choices = {"choice_a": ["yes it does"] * N, "choice_b": ["no it does not"] * N}
    found = find(premise=TEXT, **choices, label=labels * (N // 2))
    assert (found.kind, found.texts, found.label) == ("choose", ("premise",), "label")
    assert (found.settings, found.values) == ({"choices": ["choice_a", "choice_b"]}, values)


def test_rank_and_choose_from_lists():
    passages = [["one passage", "another one"]] * N
    found = find(query=TEXT, passages=passages, relevance=[[0, 1]] * N)
    assert (found.kind, found.texts, found.label) == ("rank", ("query",), "relevance")
    found = find(question=TEXT, options=passages, label=[0, 1] * (N // 2))
    assert (found.kind, found.settings) == ("choose", {"choices": ["options"]})


def test_columns_of_zeros_and_ones():
    flags = {
        name: [str(n % k == 0)[0].replace("T", "1").replace("F", "0") for n in range(N)]
        for name, k in (("toxic", 2), ("threat", 3), ("insult", 5))
    }
    found = find(id=[f"x{n}" for n in range(N)], comment_text=TEXT, **flags)
    assert (found.kind, found.label) == ("multilabel", ("toxic", "threat", "insult"))


def test_a_text_and_a_label_have_no_structure():
    assert find(text=TEXT, label=["a", "b"] * (N // 2)) is None
    assert find(text=TEXT, labels=[["a"], ["a", "b"]] * (N // 2)) is None
