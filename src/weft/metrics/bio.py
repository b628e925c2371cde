"""BIO tags: the entities that they name, and the repair of illegal tags.

`B-X` begins an entity of type X, `I-X` continues one, `O` is outside. An `I-X` that follows neither a `B-X`
nor an `I-X` is illegal: there is nothing of type X to continue. Everywhere in weft such a tag **begins a new
entity**, as if it were `B-X`. conlleval and seqeval (in its default mode) use the same rule.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

OUTSIDE = "O"


class Entity(NamedTuple):
    """An entity of this type: the words from `first` up to, but not including, `end`."""

    type: str
    first: int
    end: int


def split_tag(tag: str) -> tuple[str, str]:
    """Split a tag: `B-creative-work` into (`B`, `creative-work`), `O` into (`O`, ``).

    Raises:
        ValueError: if the tag is not BIO; the message states what was expected.
    """
    if tag == OUTSIDE:
        return OUTSIDE, ""
    prefix, _, name = tag.partition("-")
    if prefix not in ("B", "I") or not name:
        raise ValueError(f"O, B-TYPE or I-TYPE; found tag {tag!r}")
    return prefix, name


def repaired(tags: Sequence[str]) -> list[str]:
    """Return the tags with every illegal `I-X` replaced by `B-X`."""
    legal: list[str] = []
    previous = ""
    for tag in tags:
        prefix, name = split_tag(tag)
        legal.append(f"B-{name}" if prefix == "I" and name != previous else tag)
        previous = name
    return legal


def illegal(tags: Sequence[str]) -> int:
    """Count the tags `I-X` that follow neither a `B-X` nor an `I-X`."""
    return sum(old != new for old, new in zip(tags, repaired(tags), strict=True))


def entities(tags: Sequence[str]) -> list[Entity]:
    """Return the entities (type, first word, last word + 1) in order."""
    result: list[Entity] = []
    for position, tag in enumerate(repaired(tags)):
        prefix, name = split_tag(tag)
        if prefix == "B":
            result.append(Entity(name, position, position + 1))
        elif prefix == "I":  # it continues the last entity: otherwise `repaired` would have made it B
            result[-1] = result[-1]._replace(end=position + 1)
    return result
