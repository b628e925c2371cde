"""Seeded draws and the small English grammar of the swatch tasks."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T")

# named patterns, each with the weight it is drawn by
Weighted = tuple[tuple[tuple[str, T], int], ...]

_VOWELS = frozenset("aeiou")
# the only beginning among swatch's words that is written with a vowel and spoken with a consonant
_SPOKEN_CONSONANT = "use"
_IRREGULAR_PLURALS = {
    "child": "children",
    "potato": "potatoes",
    "seaman": "seamen",
    "thief": "thieves",
}


class Draw:
    """Random draws that are the same on every platform and Python version.

    Python guarantees that `Random(int).random()` never changes, but not its other methods; so every draw
    uses `random()` only.

    Args:
        purpose: what the draws are for; its SHA-256 is the seed, so each purpose has a separate stream.
    """

    def __init__(self, purpose: str) -> None:
        self._random = random.Random(int.from_bytes(hashlib.sha256(purpose.encode()).digest()[:8], "big"))

    def below(self, n: int) -> int:
        """An integer in [0, n)."""
        return int(self._random.random() * n)

    def uniform(self) -> float:
        """A number in [0, 1)."""
        return self._random.random()

    def chance(self, p: float) -> bool:
        """True with probability `p`."""
        return self._random.random() < p

    def pick(self, items: Sequence[T]) -> T:
        """One of the items."""
        return items[self.below(len(items))]

    def sample(self, items: Sequence[T], k: int) -> list[T]:
        """`k` different items, in random order."""
        left = list(items)
        return [left.pop(self.below(len(left))) for _ in range(k)]

    def other(self, items: Sequence[T], than: T) -> T:
        """One of the items that is not `than`."""
        return self.pick([item for item in items if item != than])

    def weighted(self, items: Sequence[tuple[T, int]]) -> T:
        """One of the items, each drawn in proportion to the weight beside it."""
        left = self.below(sum(weight for _, weight in items))
        for item, weight in items:
            left -= weight
            if left < 0:
                return item
        raise AssertionError("the weights are positive")


@dataclass(frozen=True)
class Verb:
    """The forms of one verb, such as see, sees, saw, seen, seeing."""

    base: str
    third: str
    past: str
    participle: str
    ing: str


def verb(spec: str) -> Verb:
    """A verb from its irregular forms.

    Args:
        spec: `base` (regular), `base*` (regular, last letter doubled), `base past participle`, or
            `base past participle ing`.
    """
    base, *rest = spec.split()
    stem = base
    if base.endswith("*"):
        base = base[:-1]
        stem = base + base[-1]
    if base.endswith(("s", "x", "z", "ch", "sh", "o")):
        third = base + "es"
    elif base.endswith("y") and base[-2] not in _VOWELS:
        third = base[:-1] + "ies"
    else:
        third = base + "s"
    if base.endswith("e"):
        past = base + "d"
    elif base.endswith("y") and base[-2] not in _VOWELS:
        past = base[:-1] + "ied"
    else:
        past = stem + "ed"
    ing = (base[:-1] if base.endswith("e") and not base.endswith("ee") else stem) + "ing"
    participle = past
    if rest:
        past, participle = rest[0], rest[1]
        ing = rest[2] if len(rest) > 2 else ing
    return Verb(base, third, past, participle, ing)


def words(text: str) -> tuple[str, ...]:
    """Return the words of a text: a compact notation for long lists."""
    return tuple(text.split())


def verbs(text: str) -> tuple[Verb, ...]:
    """The verbs of a list such as `paint, hide hid hidden`, each as `verb` reads it."""
    return tuple(verb(spec.strip()) for spec in text.split(","))


def plural(noun: str) -> str:
    """The plural of a noun; of a phrase, that of its last word."""
    head, space, last = noun.rpartition(" ")
    if last in _IRREGULAR_PLURALS:
        return head + space + _IRREGULAR_PLURALS[last]
    if last.endswith("y") and last[-2] not in _VOWELS:
        return noun[:-1] + "ies"
    if last.endswith(("s", "x", "z", "ch", "sh")):
        return noun + "es"
    return noun + "s"


def a(phrase: str) -> str:
    """Return the phrase with `a` or `an` before it."""
    vowel = phrase[0] in _VOWELS and not phrase.startswith(_SPOKEN_CONSONANT)
    return f"{'an' if vowel else 'a'} {phrase}"


def sentence(*parts: str, end: str = ".") -> str:
    """Join the parts to a sentence with a capital letter and an end mark.

    Parts may be empty or have extra spaces; the space before a comma or semicolon is removed.
    """
    text = " ".join(" ".join(parts).split()).replace(" ,", ",").replace(" ;", ";")
    return text[0].upper() + text[1:] + end
