"""BIO tags: which entities they name, and what is done about those that name none.

`B-X` begins an entity of type X, `I-X` continues one, `O` is outside. An `I-X` that follows neither a `B-X`
nor an `I-X` is illegal: there is nothing of type X to continue. The rule for it, everywhere in weft: **it
begins a new entity**, as if it were `B-X`. conlleval and seqeval (its default mode) read it in the same way.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

OUTSIDE = "O"


class Entity(NamedTuple):
    """The words from `first` up to, not including, `end` name something of this type."""

    type: str
    first: int
    end: int


def split_tag(tag: str) -> tuple[str, str]:
    """`B-creative-work` as (`B`, `creative-work`), `O` as (`O`, ``).

    Raises:
        ValueError: with what was expected.
    """
    if tag == OUTSIDE:
        return OUTSIDE, ""
    prefix, _, name = tag.partition("-")
    if prefix not in ("B", "I") or not name:
        raise ValueError(f"O, B-TYPE or I-TYPE; found tag {tag!r}")
    return prefix, name


def repaired(tags: Sequence[str]) -> list[str]:
    """The tags, each illegal `I-X` made the `B-X` that it is read as."""
    found: list[str] = []
    before = ""
    for tag in tags:
        prefix, name = split_tag(tag)
        found.append(f"B-{name}" if prefix == "I" and name != before else tag)
        before = name
    return found


def illegal(tags: Sequence[str]) -> int:
    """How many of the tags are an `I-X` after neither a `B-X` nor an `I-X`."""
    return sum(old != new for old, new in zip(tags, repaired(tags), strict=True))


def entities(tags: Sequence[str]) -> list[Entity]:
    """The entities (type, first word, last word + 1), in their order."""
    found: list[Entity] = []
    for place, tag in enumerate(repaired(tags)):
        prefix, name = split_tag(tag)
        if prefix == "B":
            found.append(Entity(name, place, place + 1))
        elif prefix == "I":  # it continues the last one: else it had been repaired
            found[-1] = found[-1]._replace(end=place + 1)
    return found
