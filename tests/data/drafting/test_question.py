"""Answers to questions."""

from __future__ import annotations

import pytest

from weft.data.drafting.question import Question, take_guess
from weft.errors import WeftError

QUESTION = Question("x", "texts", "a, b", ("c",), ("a", "b", "c", "d, e"), "why")


def test_the_guess_is_the_default():
    assert QUESTION.read("") == QUESTION.read(take_guess(QUESTION)) == ("a", "b")


def test_a_name_may_hold_a_comma():
    assert QUESTION.read("d, e") == ("d, e",)
    assert QUESTION.read(" c ,a") == ("c", "a")


def test_an_unknown_name():
    with pytest.raises(WeftError, match="task 'x': texts: found 'z'"):
        QUESTION.read("z")
