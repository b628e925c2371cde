"""Mark: one of the two spans of text that a `marked` task compares, and the columns that locate it."""

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
    """The location of one of the two marked spans.

    A span is located either by characters, from `start` up to but not including `end`, or by `word`, the
    index of its first word when the text is split at white space, and `phrase`, the marked text.

    Attributes:
        text: the text that contains it, 0 or 1.
        start: the column of its first character.
        end: the column of the character after its last one.
        word: the column of the index of its first word.
        phrase: the column of its text.
    """

    text: int = 0
    start: str | None = None
    end: str | None = None
    word: str | None = None
    phrase: str | None = None

    @property
    def columns(self) -> tuple[str, str]:
        """The two columns that locate it."""
        return (self.start, self.end) if self.start and self.end else (self.word or "", self.phrase or "")

    def settings(self) -> dict[str, Any]:
        """The mark as in a run file."""
        return {key: value for key, value in vars(self).items() if value is not None}

    def place(self, text: str, values: tuple[object, object]) -> tuple[int, int]:
        """Return the characters (first, last + 1) of the mark in a text.

        Args:
            text: the text that contains it.
            values: the values of its two columns.

        Raises:
            ValueError: if there is no such span; the message states what was expected.
        """
        if self.start is not None:
            start, end = (whole(value) for value in values)
            if start is None or end is None or not 0 <= start < end <= len(text):
                raise ValueError(f"two positions in the text of {len(text)} characters, start before end")
        else:
            word, phrase = whole(values[0]), values[1]
            if not isinstance(phrase, str) or not phrase.strip():
                raise ValueError("the marked words as a text")
            words = list(_WORD.finditer(text))
            if word is None or not 0 <= word < len(words):
                raise ValueError(f"the number of a word, from 0 to {len(words) - 1}")
            start, end = _locate_phrase(text, words, word, phrase.strip())
        while end > start + 1 and text[end - 1].isspace():
            end -= 1
        if text[start:end].isspace():
            raise ValueError("a span that holds more than white space")
        return start, end


def as_mark(task: str, settings: Any, texts: int) -> Mark:
    """Return the mark that a run file describes, or raise an error that names the task."""
    if isinstance(settings, Mark):
        mark = settings
    elif isinstance(settings, Mapping) and {str(k) for k in settings} - {"text"} in _KEYS:
        mark = Mark(**{str(key): value for key, value in settings.items()})
    else:
        raise WeftError(
            f"task {task!r}: marks: expected {{text: 0, start: COLUMN, end: COLUMN}} or "
            f"{{text: 0, word: COLUMN, phrase: COLUMN}}; found {settings!r}"
        )
    if mark.text not in range(texts) or not all(isinstance(c, str) and c for c in mark.columns):
        raise WeftError(
            f"task {task!r}: marks: expected a text from 0 to {texts - 1} and the names of two columns; "
            f"found {mark.settings()}"
        )
    return mark


def _locate_phrase(text: str, words: list[re.Match[str]], word: int, phrase: str) -> tuple[int, int]:
    """Return the characters of a phrase: at the given word, or else at its nearest occurrence.

    Public data sometimes has wrong word indices, and phrases that are spelled differently in the text (WSC).
    If the phrase does not occur, or differs in punctuation and case alone, the words at the index are used.
    """
    start = words[word].start()
    last = min(word + len(phrase.split()), len(words)) - 1
    end = words[last].end()
    position = text.find(phrase, start, end)
    if position < 0 and _letters(phrase) not in _letters(text[start:end]):
        pattern = rf"(?<!\w){re.escape(phrase)}(?!\w)"
        positions = [match.start() for match in re.finditer(pattern, text, re.IGNORECASE)]
        position = min(positions, key=lambda candidate: abs(candidate - start), default=-1)
    # an exact match excludes punctuation attached to the last word
    return (position, position + len(phrase)) if position >= 0 else (start, end)


def _letters(text: str) -> str:
    """Return the letters and digits in lower case; differences in the rest are not errors of the data."""
    return "".join(character for character in text.casefold() if character.isalnum())
