"""acceptability: is the sentence English?

Every pattern builds a good and a bad sentence from the same words, or from words that are equally common in
good sentences: the correct form depends on a word further away.
"""

from __future__ import annotations

from collections.abc import Callable

from weft.suites.swatch.grammar import Draw, Weighted, a, plural, sentence, words
from weft.suites.swatch.lexicon import (
    COLORS,
    FEMALE,
    MALE,
    NAMES,
    OBJECTS,
    QUALITIES,
    ROLES,
    SINGLE_PLACES,
    SINGLE_TIMES,
    STRONG,
    TO_PEOPLE,
    WITH_OBJECT,
    WITHOUT_OBJECT,
)

LABELS = ("no", "yes")

_WITH_ING = words("enjoyed avoided finished practiced suggested resisted missed imagined postponed denied")
_WITH_TO = words("wanted decided hoped refused agreed promised offered managed pretended wished")
_ADVERBS = words("quietly really quickly secretly gladly often carefully suddenly simply calmly")
_SINGULAR = ("this", "that", "each", "every", "one", "another", "a single")
_PLURAL = ("these", "those", "many", "several", "two", "both", "a few")
_LINKS = ("near", "behind", "next to", "beside", "above", "below")


def _number(noun: str, many: bool) -> str:
    return plural(noun) if many else noun


def _agreement(draw: Draw, good: bool) -> str:
    """The verb agrees with the head of its subject, not with the noun before it."""
    many, other_many = draw.chance(0.5), draw.chance(0.5)
    head = _number(draw.pick(OBJECTS), many)
    between = draw.pick(
        (
            "",
            "",
            f"{draw.pick(_LINKS)} the {_number(draw.pick(OBJECTS), other_many)}",
            f"of the {_number(draw.pick(ROLES), other_many)}",
            f"that the {_number(draw.pick(ROLES), other_many)} {draw.pick(WITH_OBJECT).past}",
        )
    )
    be = draw.pick(
        (("is", "are"), ("was", "were"), ("has been", "have been"), ("looks", "look"), ("seems", "seem"))
    )
    return sentence("the", head, between, be[many if good else not many], draw.pick(QUALITIES))


def _verb_form(draw: Draw, good: bool) -> str:
    """The auxiliary decides the form of the verb behind the adverb."""
    act, who, thing = draw.pick(STRONG), f"the {draw.pick(ROLES)}", f"the {draw.pick(OBJECTS)}"
    forms = {
        "": act.past,
        "did not": act.base,
        "will": act.base,
        "has": act.participle,
        "had": act.participle,
    }
    auxiliary = draw.pick(tuple(forms))
    form = forms[auxiliary] if good else draw.other((act.base, act.past, act.participle), forms[auxiliary])
    rest = draw.pick(("", draw.pick(SINGLE_PLACES)))
    adverb = draw.pick(("", draw.pick(_ADVERBS)))
    return sentence(who, auxiliary, adverb, form, thing, rest)


def _complement(draw: Draw, good: bool) -> str:
    """`enjoyed painting`, but `wanted to paint`."""
    ing = draw.chance(0.5)
    main = draw.pick(_WITH_ING if ing else _WITH_TO)
    act = draw.pick(WITH_OBJECT)
    adverb = draw.pick(("", "", "always", "never", "really"))
    return sentence(
        draw.pick(NAMES),
        adverb,
        main,
        act.ing if ing == good else f"to {act.base}",
        f"the {draw.pick(OBJECTS)}",
    )


def _reflexive(draw: Draw, good: bool) -> str:
    """The reflexive goes with the subject, not with the nearest person."""
    act = draw.pick(("hurt", "blamed", "praised", "admired", "introduced", "defended", "described"))
    woman, man, both = draw.pick(FEMALE), draw.pick(MALE), plural(draw.pick(ROLES))
    subjects = {
        "herself": (woman, woman, f"the sister of {man}", f"the mother of the {both}"),
        "himself": (man, man, f"the brother of {woman}", f"the father of the {both}"),
        "themselves": (f"the {both}", f"{woman} and {man}", f"the aunts of {woman}", f"the uncles of {man}"),
    }
    right = draw.pick(tuple(subjects))
    reflexive = right if good else draw.other(tuple(subjects), right)
    return sentence(draw.pick(subjects[right]), act, reflexive, draw.pick(("", draw.pick(SINGLE_TIMES))))


def _determiner(draw: Draw, good: bool) -> str:
    """The determiner agrees with the noun behind the adjectives."""
    many = draw.chance(0.5)
    determiner = draw.pick(_PLURAL if many else _SINGULAR)
    noun = _number(draw.pick(OBJECTS), many if good else not many)
    adjectives = draw.pick((draw.pick(QUALITIES), f"{draw.pick(QUALITIES)} {draw.pick(COLORS)}"))
    who, act = draw.pick(NAMES), draw.pick(WITH_OBJECT)
    return sentence(who, act.past, determiner, adjectives, noun, draw.pick(("", draw.pick(SINGLE_PLACES))))


def _inversion(draw: Draw, good: bool) -> str:
    """A direct question inverts subject and auxiliary; an embedded one does not."""
    act, who, thing = draw.pick(WITH_OBJECT), f"the {draw.pick(ROLES)}", f"the {draw.pick(OBJECTS)}"
    ask = draw.pick(("where", "when", "why", "how"))
    auxiliary = draw.pick(("can", "will", "should", "could", "must"))
    direct = draw.chance(0.5)
    inverted = f"{auxiliary} {who}" if direct == good else f"{who} {auxiliary}"
    frame = (
        "" if direct else draw.pick(("I know", "we asked", "nobody told me", "it is clear", "she explained"))
    )
    return sentence(frame, ask, inverted, act.base, thing, end="?" if direct else ".")


def _order(draw: Draw, good: bool) -> str:
    """The words in order, or with two neighbors exchanged ungrammatically."""
    who, act = draw.pick(ROLES), draw.pick(WITH_OBJECT).past
    adjective, thing = draw.pick(QUALITIES), draw.pick(OBJECTS)
    where = draw.pick(SINGLE_PLACES)
    if good:
        return draw.pick(
            (
                sentence("the", who, act, "the", adjective, thing, where),
                sentence(where, "the", who, act, "the", adjective, thing),
            )
        )
    return draw.pick(
        (
            sentence("the", who, act, "the", thing, adjective, where),
            sentence("the", who, "the", adjective, thing, act, where),
            sentence("the", who, act, adjective, "the", thing, where),
            sentence(where, act, "the", who, "the", adjective, thing),
        )
    )


def _any(draw: Draw, good: bool) -> str:
    """`any` needs a negation in its own clause; one inside a relative clause does not license it."""
    role, act, thing = draw.pick(ROLES), draw.pick(WITH_OBJECT), plural(draw.pick(OBJECTS))
    alone = draw.pick(WITHOUT_OBJECT)
    inside = f"did not {alone.base}" if draw.chance(0.6) else alone.past
    if good and draw.chance(0.3):
        return sentence("the", role, "who", inside, act.past, "some", thing)
    return sentence("the", role, "who", inside, f"did not {act.base}" if good else act.past, "any", thing)


def _case(draw: Draw, good: bool) -> str:
    """I, he, she before the verb; me, him, her behind it."""
    # not both: I and we refer to each other
    forms = (draw.pick((("I", "me"), ("we", "us"))), ("he", "him"), ("she", "her"), ("they", "them"))
    first, second = draw.sample(forms, 2)
    subject, object_ = first[0], second[1]
    if not good:
        subject, object_ = draw.pick(((first[1], second[1]), (first[0], second[0]), (first[1], second[0])))
    if draw.chance(0.5):
        subject = f"{draw.pick(NAMES)} and {subject}"
    act = draw.pick(draw.pick(TO_PEOPLE))
    return sentence(subject, act.past, object_, draw.pick(("", draw.pick(SINGLE_PLACES))))


def _articles(draw: Draw, good: bool) -> str:
    """One noun, one determiner."""
    who, act, thing = draw.pick(ROLES), draw.pick(WITH_OBJECT).past, draw.pick(OBJECTS)
    place = draw.pick(SINGLE_PLACES)
    if good:
        article = draw.pick((f"the {thing}", a(thing), f"my {thing}", plural(thing), f"her {thing}"))
    else:
        article = draw.pick(
            (thing, f"the my {thing}", f"her the {thing}", a(plural(thing)), f"the a {thing}", thing)
        )
    return sentence("the", who, act, article, place)


def _valency(draw: Draw, good: bool) -> str:
    """Some verbs take an object and some do not."""
    alone = draw.chance(0.5)
    act = draw.pick(WITHOUT_OBJECT) if alone else draw.pick(WITH_OBJECT)
    thing = "" if alone == good else f"the {draw.pick(OBJECTS)}"
    return sentence("the", draw.pick(ROLES), act.past, thing, draw.pick(SINGLE_PLACES))


_PATTERNS: Weighted[Callable[[Draw, bool], str]] = (
    (("agreement", _agreement), 3),
    (("verb form", _verb_form), 3),
    (("complement", _complement), 1),
    (("reflexive", _reflexive), 2),
    (("determiner", _determiner), 3),
    (("inversion", _inversion), 4),
    (("order", _order), 4),
    (("any", _any), 1),
    (("case", _case), 3),
    (("articles", _articles), 1),
    (("valency", _valency), 3),
)


def row(draw: Draw) -> dict[str, str | float]:
    """One example: a sentence, whether it is acceptable, and the pattern it was built by."""
    good = draw.chance(0.54)
    pattern, build = draw.weighted(_PATTERNS)
    return {"text": build(draw, good), "label": LABELS[good], "pattern": pattern}
