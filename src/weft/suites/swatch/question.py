"""question: what kind of thing is wanted, a person, a place, a time, a number, a reason or a thing?

Most questions name two kinds in the same words, one that is asked for and one that is known or only
mentioned; the frame around them decides which is which.
"""

from __future__ import annotations

from collections.abc import Callable

from weft.suites.swatch.grammar import Draw, Weighted, plural, sentence, verbs, words
from weft.suites.swatch.lexicon import OBJECTS, ROLES

LABELS = ("person", "place", "time", "number", "reason", "thing")

_ACTS = verbs("""
buy bought bought, sell sold sold, hide hid hidden, paint, repair, find found found, lose lost lost,
steal stole stolen, break broke broken, collect, carry, deliver, clean, photograph, borrow,
throw threw thrown, draw drew drawn, choose chose chosen, wrap*, design
""")
_SITES = words("town village city country street building room museum harbor park school hospital")
_PERIODS = words("month year week season century decade hour summer winter holiday")


def _templates(text: str) -> tuple[str, ...]:
    return tuple(" ".join(part.split()) for part in text.split("|"))


# the questions of each kind, embedded in a sentence; {did} is the whole event
_EMBEDDED = {
    "person": _templates("""
        who {past} {what} | which person {past} {what} | the name of the person who {past} {what} |
        the identity of whoever {past} {what} | who it was that {past} {what} |
        by whom {what} was {participle} | whose idea it was to {base} {what} |
        the name of the {role} who {past} {what} | which {role} {past} {what}
    """),
    "place": _templates("""
        where {did} | in which town {did} | the place where {did} | the spot at which {did} |
        the address at which {did} | in what part of the country {did} | the street on which {did} |
        in which {site} {did} | the name of the {site} where {did}
    """),
    "time": _templates("""
        when {did} | in what year {did} | the date on which {did} | the moment at which {did} |
        how long ago {did} | in which {period} {did} | the {period} in which {did} |
        since what hour {who} had {what}
    """),
    "number": _templates("""
        how many {many} {who} {past} | how many times {did} | the number of {many} {who} {past} |
        the price of {what} that {who} {past} | how much {what} weighed that {who} {past} |
        how much {who} was paid to {base} {what} | how many people saw {who} {base} {what} |
        what percentage of the {many} {who} {past}
    """),
    "reason": _templates("""
        why {did} | for what reason {did} | the reason why {did} | what made {who} {base} {what} |
        what led {who} to {base} {what} | the motive {who} had to {base} {what} |
        how it came about that {did} | what drove {who} to {base} {what}
    """),
    "thing": _templates("""
        what {who} {past} | which object {who} {past} | what was {participle} by {who} |
        the thing that {who} {past} | the item {who} {past} | what it was that {who} {past} |
        which {thing} {who} {past} | the kind of {thing} that {who} {past}
    """),
}

# and as direct questions
_DIRECT = {
    "person": _templates("who {past} {what} | which person {past} {what} | by whom was {what} {participle}"),
    "place": _templates("where {ask} | in which town {ask} | on what street {ask}"),
    "time": _templates("when {ask} | in what year {ask} | how long ago {ask}"),
    "number": _templates(
        "how many {many} did {who} {base} | how many times {ask} | how much did {who} pay for {what}"
    ),
    "reason": _templates("why {ask} | for what reason {ask} | what made {who} {base} {what}"),
    "thing": _templates(
        "what did {who} {base} | which object did {who} {base} | what was {participle} by {who}"
    ),
}

# the positions of the known and the wanted; the words before them are balanced over the frames
_FRAMES = (
    "tell me {wanted}, not {known}.",
    "do not tell me {known} but {wanted}.",
    "I know {known}, but I do not know {wanted}.",
    "I do not know {wanted}, but I know {known}.",
    "I know {known} but not {wanted}.",
    "nobody knows {wanted}, though everybody knows {known}.",
    "everybody knows {known}, but nobody knows {wanted}.",
    "I was told {known} but wanted to know {wanted}.",
    "I wanted to know {wanted} but was told {known}.",
    "the question is {wanted}, not {known}.",
    "the question is not {known} but {wanted}.",
    "they found out {known} but could not find out {wanted}.",
    "they could not find out {wanted} but found out {known}.",
    "we remember {known} but no longer remember {wanted}.",
    "we no longer remember {wanted} but remember {known}.",
    "there is nobody who does not know {known}, and nobody who knows {wanted}.",
    "nobody could forget {known}, but everybody forgot {wanted}.",
    "it is not that I do not know {known}; I do not know {wanted}.",
    "I would give a lot to know {wanted} and nothing to know {known}.",
    "you need not say {known} as long as you say {wanted}.",
    "before we discuss {known}, we have to know {wanted}.",
    "we know enough about {known} and too little about {wanted}.",
    "it is easy to guess {known} but hard to guess {wanted}.",
    "it is hard to guess {wanted} but easy to guess {known}.",
)
_OPENINGS = ("do you know", "can you tell me", "would anyone here know", "is it known", "could you say")


def _fill(draw: Draw, templates: tuple[str, ...], who: str = "", what: str = "") -> str:
    """Fill a template with an event; `who` and `what` are drawn if they are empty."""
    act, thing = draw.pick(_ACTS), draw.pick(OBJECTS)
    who = who or f"the {draw.pick(ROLES)}"
    what = what or f"the {thing}"
    return draw.pick(templates).format(
        who=who,
        what=what,
        many=plural(thing),
        thing=thing,
        role=draw.pick(ROLES),
        site=draw.pick(_SITES),
        period=draw.pick(_PERIODS),
        base=act.base,
        past=act.past,
        participle=act.participle,
        did=f"{who} {act.past} {what}",
        ask=f"did {who} {act.base} {what}",
    )


def _one_clause(draw: Draw, asked: str, other: str) -> str:
    if draw.chance(0.3):
        return sentence(_fill(draw, _DIRECT[asked]), end="?")
    return sentence(draw.pick(_OPENINGS), _fill(draw, _EMBEDDED[asked]), end="?")


def _two_clauses(draw: Draw, asked: str, other: str) -> str:
    known, wanted = _fill(draw, _EMBEDDED[other]), _fill(draw, _EMBEDDED[asked])
    return sentence(draw.pick(_FRAMES).format(known=known, wanted=wanted), end="")


def _nested(draw: Draw, asked: str, other: str) -> str:
    """A question about somebody who is described by another question."""
    knows = draw.pick(("who knew", "who wanted to know", "who asked me", "who told us"))
    who = f"the {draw.pick(ROLES)} {knows} {_fill(draw, _EMBEDDED[other])}"
    # if a person is asked for, that somebody cannot be the one who acted
    known = {"what": f"the {draw.pick(OBJECTS)} of {who}"} if asked == "person" else {"who": who}
    if draw.chance(0.4):
        return sentence(_fill(draw, _DIRECT[asked], **known), end="?")
    return sentence(draw.pick(_OPENINGS), _fill(draw, _EMBEDDED[asked], **known), end="?")


_SHARES = (("person", 19), ("place", 18), ("time", 17), ("number", 14), ("reason", 15), ("thing", 17))
_PATTERNS: Weighted[Callable[[Draw, str, str], str]] = (
    (("one clause", _one_clause), 3),
    (("two clauses", _two_clauses), 10),
    (("nested", _nested), 2),
)


def row(draw: Draw) -> dict[str, str | float]:
    """One example: a question, the kind of thing it asks for and the pattern it was built by."""
    asked = draw.weighted(_SHARES)
    pattern, build = draw.weighted(_PATTERNS)
    return {"text": build(draw, asked, draw.other(LABELS, asked)), "label": asked, "pattern": pattern}
