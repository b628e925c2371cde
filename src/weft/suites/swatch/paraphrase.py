"""paraphrase: do the two sentences say the same?

Pairs of both labels undergo the same changes of form (voice, order, synonyms, a word for its negated
opposite). Pairs with different meanings also have a change of meaning with the same words: who did it to
whom, a different word in place of a synonym, an opposite that is not negated.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from weft.suites.swatch.grammar import Draw, T, Verb, Weighted, sentence, verbs
from weft.suites.swatch.lexicon import (
    COMPARISONS,
    EXCLUSIVE_ACTS,
    EXCLUSIVE_STATES,
    MANNERS,
    NAMES,
    OBJECTS,
    PEOPLE,
    PLACES,
    ROLES,
    THINGS,
    TIMES,
    TO_PEOPLE,
    TO_THINGS,
)

LABELS = ("no", "yes")

_GIVING = verbs("give gave given, send sent sent, show showed shown, offer, lend lent lent, hand")
# A does the first to B: the same as B does the second from A
_CONVERSE = (("sold", "bought"), ("lent", "borrowed"), ("gave", "got"), ("sent", "received"))


def _two_people(draw: Draw) -> list[str]:
    """Two people, by name or by what they do."""
    if draw.chance(0.5):
        return draw.sample(NAMES, 2)
    return [f"the {role}" for role in draw.sample(ROLES, 2)]


def _roles(draw: Draw, same: bool) -> tuple[str, str]:
    """Who did it to whom, in the active or the passive voice."""
    doer, other = _two_people(draw)
    act, synonym = draw.sample(draw.pick(TO_PEOPLE), 2)

    def tell(doer: str, act: Verb, other: str, passive: bool) -> str:
        return sentence(
            f"{other} was {act.participle} by {doer}" if passive else f"{doer} {act.past} {other}"
        )

    passive = draw.chance(0.5)
    first_sentence = tell(doer, act, other, passive)
    if not same:
        doer, other = other, doer
    if draw.chance(0.3):
        return first_sentence, tell(doer, synonym, other, passive)
    return first_sentence, tell(doer, act, other, not passive)


def _giving(draw: Draw, same: bool) -> tuple[str, str]:
    """Who gave it to whom: `gave B the key`, `gave the key to B`, `was given the key by A`."""
    giver, receiver = _two_people(draw)
    act, thing = draw.pick(_GIVING), f"the {draw.pick(OBJECTS)}"
    forms = (
        "{giver} {past} {receiver} {thing}",
        "{giver} {past} {thing} to {receiver}",
        "{receiver} was {participle} {thing} by {giver}",
    )
    form, other_form = draw.sample(forms, 2)
    words = {"past": act.past, "participle": act.participle, "thing": thing}
    first_sentence = form.format(giver=giver, receiver=receiver, **words)
    if not same:
        giver, receiver = receiver, giver
    return sentence(first_sentence), sentence(other_form.format(giver=giver, receiver=receiver, **words))


def _converse(draw: Draw, same: bool) -> tuple[str, str]:
    """`A sold it to B` and `B bought it from A`; `A is taller than B` and `B is shorter than A`."""
    person, partner = _two_people(draw)
    if draw.chance(0.5):
        thing = f"the {draw.pick(OBJECTS)}"
        gave, got = draw.pick(_CONVERSE)
        there, back = f"{gave} {thing} to", f"{got} {thing} from"
    else:
        more, less = draw.pick(COMPARISONS)
        there, back = f"is {more} than", f"is {less} than"
    if draw.chance(0.5):
        there, back = back, there
    first = sentence(person, there, partner)
    return (first, sentence(partner, back, person)) if same else (first, sentence(person, back, partner))


def _words(draw: Draw, same: bool) -> tuple[str, str]:
    """Words replaced by synonyms and, in a pair that differs, by different words."""
    adjuncts = draw.pick((PLACES, TIMES, MANNERS)) if draw.chance(0.6) else ()
    parts = 4 if adjuncts else 3
    changed = draw.sample(range(parts), draw.pick((1, 2, 2, 3)))
    # one other word makes the meaning differ; further ones may be synonyms
    differ = [slot for i, slot in enumerate(changed) if not same and (i == 0 or draw.chance(0.6))]

    def two_words(slot: int, concepts: Sequence[tuple[T, ...]]) -> tuple[T, T]:
        """The slot's word in the first and in the second sentence."""
        concept = draw.pick(concepts)
        word = draw.pick(concept)
        if slot in differ:
            return word, draw.pick(draw.other(concepts, concept))
        return word, draw.other(concept, word) if slot in changed else word

    who, act, thing = two_words(0, PEOPLE), two_words(1, TO_THINGS), two_words(2, THINGS)
    adjunct = two_words(3, adjuncts) if adjuncts else ("", "")

    def tell(i: int) -> str:
        if draw.chance(0.25):
            return sentence(f"the {thing[i]} was {act[i].participle} by the {who[i]}", adjunct[i])
        clause = f"the {who[i]} {act[i].past} the {thing[i]}"
        front = adjunct[i] and draw.chance(0.3)
        return sentence(adjunct[i], ",", clause) if front else sentence(clause, adjunct[i])

    return tell(0), tell(1)


def _denied(draw: Draw, same: bool) -> tuple[str, str]:
    """Mutually exclusive opposites: to assert the one is to deny the other.

    A negation in only one of the sentences is equally common in both labels, and so is an opposite; the
    sentences say the same only if both or neither occur.
    """
    denied = draw.chance(0.5)
    first_denied = draw.chance(0.5)
    second_denied = first_denied != denied
    opposite = denied == same
    if draw.chance(0.5):
        who = draw.pick(_two_people(draw))
        acts = draw.sample(draw.pick(EXCLUSIVE_ACTS), 2)
        thing = f"the {draw.pick(OBJECTS)}"

        def tell(act: Verb, not_: bool, passive: bool) -> str:
            if passive:
                return sentence(thing, "was not" if not_ else "was", act.participle, "by", who)
            return sentence(who, f"did not {act.base}" if not_ else act.past, thing)

        return tell(acts[0], first_denied, False), tell(acts[opposite], second_denied, True)
    owner, thing = draw.pick(NAMES), draw.pick(OBJECTS)
    states = draw.sample(draw.pick(EXCLUSIVE_STATES), 2)
    be = ("is", "is not")
    return (
        sentence(f"{owner}'s {thing}", be[first_denied], states[0]),
        sentence(f"the {thing} of {owner}", be[second_denied], states[opposite]),
    )


_PATTERNS: Weighted[Callable[[Draw, bool], tuple[str, str]]] = (
    (("words", _words), 15),
    (("roles", _roles), 2),
    (("converse", _converse), 1),
    (("giving", _giving), 1),
    (("denied", _denied), 1),
)


def row(draw: Draw) -> dict[str, str | float]:
    """One example: two sentences, whether they say the same, and the pattern they were built by."""
    same = draw.chance(0.46)
    pattern, build = draw.weighted(_PATTERNS)
    first, second = build(draw, same)
    return {"text_a": first, "text_b": second, "label": LABELS[same], "pattern": pattern}
