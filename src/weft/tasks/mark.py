"""A mark: a place in a text that a `marked` task compares with another, and where the columns say it is."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from weft.errors import WeftError
from weft.tasks.values import whole

_WORD = re.compile(r"\S+")
_KEYS = ({"start", "end"}, {"word", "phrase"})


@dataclass(frozen=True)
class Mark:
    """Where one of the two places is.

    Either as characters, `start` to `end` (the first one after it), or as `word`, the number of its first
    word when the text is cut at white space, and `phrase`, its own text.

    Attributes:
        text: the text it lies in, 0 or 1.
        start: the column of its first character.
        end: the column of the character after it.
        word: the column of its first word's number.
        phrase: the column of its text.
    """

    text: int = 0
    start: str | None = None
    end: str | None = None
    word: str | None = None
    phrase: str | None = None

    @property
    def columns(self) -> tuple[str, str]:
        """The two columns that say where it is."""
        return (self.start, self.end) if self.start and self.end else (self.word or "", self.phrase or "")

    def settings(self) -> dict[str, Any]:
        """As a run file says it."""
        return {key: value for key, value in vars(self).items() if value is not None}

    def place(self, text: str, values: tuple[object, object]) -> tuple[int, int]:
        """The characters (first, one after the last) of the mark in a text.

        Args:
            text: the text it lies in.
            values: those of its two columns.

        Raises:
            ValueError: with what was expected.
        """
        if self.start is not None:
            start, end = (whole(value) for value in values)
            if start is None or end is None or not 0 <= start < end <= len(text):
                raise ValueError(f"two places in the text of {len(text)} characters, the first one first")
        else:
            word, phrase = whole(values[0]), values[1]
            if not isinstance(phrase, str) or not phrase.strip():
                raise ValueError("the marked words as a text")
            words = list(_WORD.finditer(text))
            if word is None or not 0 <= word < len(words):
                raise ValueError(f"the number of a word, from 0 to {len(words) - 1}")
            start, end = _spoken(text, words, word, phrase.strip())
        while end > start + 1 and text[end - 1].isspace():
            end -= 1
        if text[start:end].isspace():
            raise ValueError("a place that holds more than white space")
        return start, end


def as_mark(task: str, given: Any, texts: int) -> Mark:
    """A mark from what a run file says, or an error that names the task."""
    if isinstance(given, Mark):
        mark = given
    elif isinstance(given, Mapping) and {str(k) for k in given} - {"text"} in _KEYS:
        mark = Mark(**{str(key): value for key, value in given.items()})
    else:
        raise WeftError(
            f"task {task!r}: marks: expected {{text: 0, start: COLUMN, end: COLUMN}} or "
            f"{{text: 0, word: COLUMN, phrase: COLUMN}}; found {given!r}"
        )
    if mark.text not in range(texts) or not all(isinstance(c, str) and c for c in mark.columns):
        raise WeftError(
            f"task {task!r}: marks: expected a text from 0 to {texts - 1} and the names of two columns; "
            f"found {mark.settings()}"
        )
    return mark


def _spoken(text: str, words: list[re.Match[str]], word: int, phrase: str) -> tuple[int, int]:
    """The characters of a phrase: from a word of the text on, or at the nearest place where it stands.

    Public data counts words wrongly here and there, and names what is not spelt so (WSC): where the phrase
    stands nowhere, or punctuation and case alone differ, the words themselves are taken.
    """
    start = words[word].start()
    last = min(word + len(phrase.split()), len(words)) - 1
    end = words[last].end()
    found = text.find(phrase, start, end)
    if found < 0 and _letters(phrase) not in _letters(text[start:end]):
        pattern = rf"(?<!\w){re.escape(phrase)}(?!\w)"
        places = [match.start() for match in re.finditer(pattern, text, re.IGNORECASE)]
        found = min(places, key=lambda place: abs(place - start), default=-1)
    # without the comma that hangs on its last word
    return (found, found + len(phrase)) if found >= 0 else (start, end)


def _letters(text: str) -> str:
    """Letters and digits alone, in lower case: how data sets differ in the rest is no mistake."""
    return "".join(character for character in text.casefold() if character.isalnum())
