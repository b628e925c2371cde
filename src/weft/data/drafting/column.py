"""Column: statistics of a column's values, from which its role is guessed."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass

from weft.tasks.values import is_missing, number_of, whole


def word_count(text: str) -> int:
    """Return the number of words; of scripts without spaces between words, two characters count as one."""
    words = text.split()
    if text.isascii():
        return len(words)
    return max(len(words), sum("\u2e80" <= character <= "\uffdc" for character in text) // 2)


@dataclass(frozen=True)
class Column:
    """Statistics of a column. Shares are of the values that are not missing, 0 to 1.

    Attributes:
        name: the column's name.
        rows: the number of values.
        missing: the number of missing values.
        distinct: the number of distinct values.
        numbers: the share of numbers, also those written as text.
        wholes: the share of whole numbers.
        flags: the share of true and false.
        texts: the share of texts that are not numbers.
        lists: the share of lists.
        objects: the share of objects (dicts).
        words: the mean number of words of a text.
        letters: the share of letters among the characters of texts, without white space.
        low: the smallest number; NaN without numbers.
        high: the largest number; NaN without numbers.
    """

    name: str
    rows: int
    missing: int
    distinct: int
    numbers: float
    wholes: float
    flags: float
    texts: float
    lists: float
    objects: float
    words: float
    letters: float
    low: float
    high: float

    @property
    def present(self) -> int:
        """The number of values that are not missing."""
        return self.rows - self.missing

    @property
    def is_number(self) -> bool:
        """Whether all values are numbers."""
        return self.present > 0 and self.numbers == 1

    @property
    def repeats(self) -> bool:
        """Whether the values recur: on average each at least twice."""
        return 2 * self.distinct <= self.present


def profile(name: str, values: Sequence[object]) -> Column:
    """Compute the statistics of a column.

    Example:
        >>> column = profile("stars", ["1", "5", "", "5"])
        >>> column.missing, column.distinct, column.wholes, column.high
        (1, 2, 1.0, 5.0)
    """
    present = [value for value in values if not is_missing(value)]
    n = max(len(present), 1)
    numbers = [number for value in present if (number := number_of(value)) is not None]
    wholes = sum(whole(value) is not None for value in present)
    texts = [value for value in present if isinstance(value, str) and number_of(value) is None]
    characters = "".join("".join(text.split()) for text in texts[:1000])
    return Column(
        name,
        len(values),
        len(values) - len(present),
        len({key_of(value) for value in present}),
        len(numbers) / n,
        wholes / n,
        sum(isinstance(value, bool) for value in present) / n,
        len(texts) / n,
        sum(isinstance(value, list | tuple) for value in present) / n,
        sum(isinstance(value, dict) for value in present) / n,
        sum(map(word_count, texts)) / max(len(texts), 1),
        sum(map(str.isalpha, characters)) / max(len(characters), 1),
        min(numbers, default=math.nan),
        max(numbers, default=math.nan),
    )


def key_of(value: object) -> str:
    """Return a text that is equal for equal values; 1, 1.0 and "1" are equal, as labels are."""
    if isinstance(value, str):
        return value
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return json.dumps(value, sort_keys=True, default=str) if isinstance(value, list | dict) else str(value)
