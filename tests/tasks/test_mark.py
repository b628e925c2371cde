"""Where a mark is, from what its columns say."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.errors import WeftError
from weft.tasks.mark import Mark, as_mark

BY_WORD = Mark(0, word="w", phrase="p")
BY_CHARACTER = Mark(0, start="s", end="e")
word = st.text("abcü雨,.'\"-", min_size=1, max_size=5)


def marked(text, mark, *values):
    start, end = mark.place(text, values)
    return text[start:end]


@given(st.text(min_size=1, max_size=30), st.data())
def test_characters(text, data):
    start = data.draw(st.integers(0, len(text) - 1))
    end = data.draw(st.integers(start + 1, len(text)))
    if text[start:end].isspace():
        with pytest.raises(ValueError, match="more than white space"):
            BY_CHARACTER.place(text, (start, end))
        return
    found = BY_CHARACTER.place(text, (start, end))
    assert found[0] == start
    assert text[slice(*found)] == text[start:end].rstrip()
    assert BY_CHARACTER.place(text, (str(start), float(end))) == found


@given(st.lists(word, min_size=1, max_size=9), st.data())
def test_words_as_they_stand(words, data):
    """With any white space between them: the phrase from its first word's number on."""
    first = data.draw(st.integers(0, len(words) - 1))
    last = data.draw(st.integers(first, len(words) - 1))
    between = [data.draw(st.sampled_from([" ", "  ", "\n"])) for _ in words]
    text = "".join(space + one for space, one in zip(between, words, strict=True))
    start, end = BY_WORD.place(text, (first, " ".join(words[first : last + 1])))
    assert text[start:end].split() == words[first : last + 1]
    assert len(text[:start].split()) == first


@pytest.mark.parametrize(
    ("text", "number", "phrase", "expected"),
    [
        # as in WSC: what hangs on a word is not of it
        ("Mark told Pete many lies about himself, which Pete believed.", 0, "Mark", "Mark"),
        ("The city councilmen refused, because they feared violence.", 5, "they", "they"),
        ("I gave it to Bob, who sold it.", 4, "Bob", "Bob"),
        ('He said "Bob\'s car", twice.', 2, "Bob", "Bob"),
        ("Then (the old man) slept.", 1, "the old man", "the old man"),
        ("It was the sack of potatoes .", 2, "the sack of potatoes", "the sack of potatoes"),
        # spelt otherwise: the words themselves, as many as the phrase has
        ("The  old\nman, slept.", 0, "the old man", "The  old\nman,"),
        ("a dog", 1, "dog is here", "dog"),
        # the same word twice: the one that the number says
        ("it and it and it", 2, "it", "it"),
    ],
)
def test_phrases_in_their_texts(text, number, phrase, expected):
    assert marked(text, BY_WORD, number, phrase) == expected
    _, end = BY_WORD.place(text, (number, phrase))
    assert len(text[:end].split()) == min(number + len(phrase.split()), len(text.split()))


def test_a_number_that_is_off_is_put_right_by_the_phrase():
    text = "They might want to use it, and use it soon."
    assert BY_WORD.place(text, (4, "it")) == (text.index("it"), text.index("it") + 2)
    assert BY_WORD.place(text, (8, "soon")) == (text.index("soon"), text.index("soon") + 4)
    # what stands nowhere leaves the word that the number says
    assert BY_WORD.place(text, (0, "Zoe")) == (0, 4)


def test_the_number_decides_between_equal_words():
    assert BY_WORD.place("it and it", (2, "it")) == (7, 9)
    assert BY_WORD.place("it and it", (0, "it")) == (0, 2)


@pytest.mark.parametrize(
    ("mark", "values", "message"),
    [
        (BY_CHARACTER, (None, 3), "two positions in the text of 7 characters"),
        (BY_CHARACTER, (0, 8), "two positions in the text of 7 characters"),
        (BY_CHARACTER, (3, 3), "start before end"),
        (BY_CHARACTER, (True, 3), "two positions"),
        (BY_CHARACTER, (0.5, 3), "two positions"),
        (BY_WORD, (2, "cat"), "the number of a word, from 0 to 1"),
        (BY_WORD, (-1, "cat"), "the number of a word"),
        (BY_WORD, ("x", "cat"), "the number of a word"),
        (BY_WORD, (0, None), "the marked words as a text"),
        (BY_WORD, (0, ""), "the marked words as a text"),
    ],
)
def test_what_is_no_place(mark, values, message):
    with pytest.raises(ValueError, match=message):
        mark.place("the cat", values)


def test_a_mark_from_a_run_file_and_back():
    for mark in (BY_WORD, Mark(1, start="s", end="e")):
        assert as_mark("t", mark.settings(), 2) == mark == as_mark("t", mark, 2)
    assert BY_WORD.columns == ("w", "p")
    assert Mark(1, start="s", end="e").columns == ("s", "e")
    with pytest.raises(WeftError, match="task 't': marks: expected a text from 0 to 0"):
        as_mark("t", Mark(1, start="s", end="e"), 1)
    with pytest.raises(WeftError, match=r"task 't': marks: expected {text: 0"):
        as_mark("t", {"text": 0, "start": "s", "end": "e", "word": "w"}, 1)
