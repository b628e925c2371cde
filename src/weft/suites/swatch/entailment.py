"""entailment: does the second sentence follow from the first, contradict it, or neither?

Negation, kinds of things, quantifiers and qualities occur in both sentences of all three labels; their
combination decides.
"""

from __future__ import annotations

from collections.abc import Callable

from weft.suites.swatch.grammar import Draw, Verb, Weighted, a, plural, sentence, verbs
from weft.suites.swatch.lexicon import (
    KINDS,
    NAMES,
    OBJECTS,
    OPPOSITE_ACTS,
    OPPOSITE_QUALITIES,
    ROLES,
    SINGLE_PLACES,
    SINGLE_TIMES,
)

LABELS = ("entailment", "neutral", "contradiction")
ENTAILMENT, NEUTRAL, CONTRADICTION = LABELS

_ACTS = verbs("""
buy bought bought, see saw seen, find found found, sell sold sold, paint, want, bring brought brought,
photograph, draw drew drawn, order, borrow, notice, mention, choose chose chosen, get got got getting
""")


def _did(act: Verb, yes: bool) -> str:
    return act.past if yes else f"did not {act.base}"


def _person(draw: Draw) -> str:
    return draw.pick(NAMES) if draw.chance(0.5) else f"the {draw.pick(ROLES)}"


def _kinds(draw: Draw, label: str) -> tuple[str, str]:
    """A thing and its kind, each asserted or negated."""
    kind, members = draw.pick(KINDS)
    member, act, who = draw.pick(members), draw.pick(_ACTS), _person(draw)
    said_member, said_kind = (act, True, member), (act, True, kind)
    denied_member, denied_kind = (act, False, member), (act, False, kind)
    pairs = {
        ENTAILMENT: ((said_member, said_kind), (denied_kind, denied_member)),
        NEUTRAL: (
            (said_kind, said_member),
            (denied_member, denied_kind),
            (said_kind, denied_member),
            (denied_member, said_kind),
        ),
        CONTRADICTION: ((said_member, denied_kind), (denied_kind, said_member)),
    }
    first, second = draw.pick(pairs[label])

    def tell(act: Verb, yes: bool, noun: str) -> str:
        return sentence(who, _did(act, yes), plural(noun))

    return tell(*first), tell(*second)


def _details(draw: Draw, label: str) -> tuple[str, str]:
    """A detail of place or time left out, added, or part of a negated sentence."""
    who, act, thing = _person(draw), draw.pick(_ACTS), f"the {draw.pick(OBJECTS)}"
    detail = draw.pick(draw.pick((SINGLE_PLACES, SINGLE_TIMES)))

    def tell(yes: bool, detail: str = "") -> str:
        return sentence(who, _did(act, yes), thing, detail)

    pairs = {
        ENTAILMENT: ((tell(True, detail), tell(True)), (tell(False), tell(False, detail))),
        NEUTRAL: (
            (tell(True), tell(True, detail)),
            (tell(False, detail), tell(False)),
            (tell(True), tell(False, detail)),
        ),
        CONTRADICTION: ((tell(True, detail), tell(False)), (tell(False), tell(True, detail))),
    }
    return draw.pick(pairs[label])


def _phrases(text: str) -> tuple[str, ...]:
    return tuple(f"{phrase.strip()} to" for phrase in text.split(","))


# `she PHRASE do it`: what follows, that she did it, that she did not, or neither
_OUTCOMES: dict[bool | None, tuple[str, ...]] = {
    True: _phrases("""
        managed, remembered, was kind enough, took the time, was brave enough, did not hesitate,
        did not forget, did not fail
    """),
    False: _phrases("""
        forgot, failed, refused, did not manage, was too tired, did not remember, did not dare, neglected
    """),
    None: _phrases("""
        wanted, promised, hoped, planned, tried, was asked, did not want, did not plan
    """),
}


def _attempts(draw: Draw, label: str) -> tuple[str, str]:
    """What was managed, forgotten or only wanted."""
    who, act, thing = _person(draw), draw.pick(_ACTS), f"the {draw.pick(OBJECTS)}"
    done = draw.chance(0.5)
    follows: bool | None = {ENTAILMENT: done, CONTRADICTION: not done, NEUTRAL: None}[label]
    phrase = draw.pick(_OUTCOMES[follows])
    return sentence(who, phrase, act.base, thing), sentence(who, _did(act, done), thing)


def _quantifiers(draw: Draw, label: str) -> tuple[str, str]:
    """All, some and none."""
    role, act = draw.pick(ROLES), draw.pick(_ACTS)
    many, thing = plural(role), f"the {draw.pick(OBJECTS)}"
    did, did_not = f"{act.past} {thing}", f"did not {act.base} {thing}"
    everyone = (f"all of the {many} {did}", f"every {role} {did}", f"there is no {role} who {did_not}")
    someone = (f"some of the {many} {did}", f"at least one {role} {did}", f"there is {a(role)} who {did}")
    no_one = (f"none of the {many} {did}", f"not one {role} {did}", f"there is no {role} who {did}")
    not_everyone = (
        f"not all of the {many} {did}",
        f"not every {role} {did}",
        f"some of the {many} {did_not}",
    )
    pairs = {
        ENTAILMENT: ((everyone, someone), (no_one, not_everyone)),
        NEUTRAL: (
            *((someone, everyone), (not_everyone, no_one)),
            *((someone, not_everyone), (not_everyone, someone)),
        ),
        CONTRADICTION: (
            *((everyone, no_one), (no_one, everyone)),
            *((someone, no_one), (no_one, someone)),
            *((everyone, not_everyone), (not_everyone, everyone)),
        ),
    }
    first, second = draw.pick(pairs[label])
    return sentence(draw.pick(first)), sentence(draw.pick(second))


def _qualities(draw: Draw, label: str) -> tuple[str, str]:
    """Opposite qualities, asserted or negated."""
    pair, other_pair = draw.sample(OPPOSITE_QUALITIES, 2)
    quality_1, quality_2 = draw.sample(pair, 2)
    other = draw.pick(other_pair)
    owner, thing = draw.pick(NAMES), draw.pick(OBJECTS)

    def tell(yes: bool, quality: str) -> str:
        return sentence(f"{owner}'s {thing} is", "" if yes else "not", quality)

    def both(quality: str, further: str) -> str:
        return sentence(f"{owner}'s {thing} is", quality, "and", further)

    pairs = {
        ENTAILMENT: (
            (tell(True, quality_1), tell(False, quality_2)),
            (both(other, quality_1), tell(True, quality_1)),
            (both(quality_1, other), tell(False, quality_2)),
        ),
        NEUTRAL: (
            (tell(True, quality_1), tell(draw.chance(0.5), other)),
            (tell(True, quality_1), both(other, quality_1)),
            (tell(False, quality_1), tell(draw.chance(0.5), other)),
        ),
        CONTRADICTION: (
            (tell(True, quality_1), tell(True, quality_2)),
            (both(other, quality_1), tell(True, quality_2)),
            (both(quality_1, other), tell(False, quality_1)),
        ),
    }
    return draw.pick(pairs[label])


def _acts(draw: Draw, label: str) -> tuple[str, str]:
    """Two people and two acts: one left out, added, attributed to the other person, or reversed."""
    person, partner = draw.sample(NAMES, 2)
    act, opposite = draw.sample(draw.pick(OPPOSITE_ACTS), 2)
    thing, other_thing = (f"the {noun}" for noun in draw.sample(OBJECTS, 2))
    both = sentence(person, act.past, thing, "and", partner, opposite.past, other_thing)
    pairs = {
        ENTAILMENT: (
            (both, sentence(person, act.past, thing)),
            (both, sentence(partner, opposite.past, other_thing)),
        ),
        NEUTRAL: (
            (both, sentence(person, opposite.past, other_thing)),
            (both, sentence(partner, act.past, thing)),
        ),
        CONTRADICTION: (
            (both, sentence(person, _did(act, False), thing)),
            (both, sentence(partner, _did(opposite, False), other_thing)),
        ),
    }
    return draw.pick(pairs[label])


_Patterns = Weighted[Callable[[Draw, str], tuple[str, str]]]

_PATTERNS: _Patterns = (
    (("kinds", _kinds), 2),
    (("details", _details), 5),
    (("attempts", _attempts), 8),
    (("quantifiers", _quantifiers), 5),
    (("qualities", _qualities), 1),
    (("acts", _acts), 1),
)
# a verb such as `wanted` reveals a neutral attempt, so there are few of them
_NEUTRAL_PATTERNS: _Patterns = (
    (("kinds", _kinds), 3),
    (("details", _details), 7),
    (("attempts", _attempts), 2),
    (("quantifiers", _quantifiers), 7),
    (("qualities", _qualities), 2),
    (("acts", _acts), 1),
)


def row(draw: Draw) -> dict[str, str | float]:
    """One example: a premise, a hypothesis, their label and the pattern they were built by."""
    label = draw.weighted(((ENTAILMENT, 36), (NEUTRAL, 33), (CONTRADICTION, 31)))
    pattern, build = draw.weighted(_NEUTRAL_PATTERNS if label == NEUTRAL else _PATTERNS)
    first, second = build(draw, label)
    return {"text_a": first, "text_b": second, "label": label, "pattern": pattern}
