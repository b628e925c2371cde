"""similarity: how much of their meaning do two sentences share, from 0 (nothing) to 5 (all)?

A sentence says who did what to which thing, for whom, where and when. The score is the weight of the parts
that both sentences share, halved if only one of them is negated, with a little noise as between two raters.
Shared parts are mostly expressed by synonyms, and parts that are not shared often swap their words between
the sentences, so that common words reveal little.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from weft.suites.swatch.grammar import Draw, T, Verb, sentence
from weft.suites.swatch.lexicon import PEOPLE, PLACES, THINGS, TIMES, TO_THINGS

# in tenths of a point: sums of integers are equal everywhere, but Python 3.12 changed sums of floats
_WEIGHTS = {"who": 10, "act": 14, "thing": 12, "partner": 7, "setting": 7}
_SYNONYM = 0.75  # how often a shared part is expressed by a synonym
_SWAP = 0.75  # how often the two people change places when neither is shared


@dataclass(frozen=True)
class _Scene:
    """The parts of one sentence, each a word of its concept."""

    who: str
    act: Verb
    thing: str
    partner: str
    setting: str
    denied: bool
    form: int

    def tell(self) -> str:
        """The scene as a sentence in one of its forms."""
        who, thing, partner = f"the {self.who}", f"the {self.thing}", f"for the {self.partner}"
        if self.form == 2:
            was = "was not" if self.denied else "was"
            return sentence(thing, was, self.act.participle, partner, "by", who, self.setting)
        did = f"did not {self.act.base}" if self.denied else self.act.past
        if self.form == 1:
            return sentence(self.setting, ",", who, did, thing, partner)
        return sentence(who, did, thing, partner, self.setting)


def _pair(draw: Draw) -> tuple[_Scene, _Scene, float]:
    """Two scenes and the weight of what they share."""
    settings = PLACES + TIMES
    who, partner = draw.sample(PEOPLE, 2)
    act, thing, setting = draw.pick(TO_THINGS), draw.pick(THINGS), draw.pick(settings)
    denied = draw.chance(0.2)
    first = _Scene(
        draw.pick(who),
        draw.pick(act),
        draw.pick(thing),
        draw.pick(partner),
        draw.pick(setting),
        denied,
        draw.below(3),
    )
    shared = draw.sample(tuple(_WEIGHTS), draw.below(len(_WEIGHTS) + 1))

    def word(part: str, concept: tuple[T, ...], current: T, instead: tuple[T, ...]) -> T:
        """The part's word in the second sentence; `instead` is its concept if the part is not shared."""
        if part not in shared:
            return draw.pick(instead)
        return draw.other(concept, current) if draw.chance(_SYNONYM) else current

    strangers = draw.sample([concept for concept in PEOPLE if concept not in (who, partner)], 2)
    second = _Scene(
        who=word("who", who, first.who, strangers[0]),
        act=word("act", act, first.act, draw.other(TO_THINGS, act)),
        thing=word("thing", thing, first.thing, draw.other(THINGS, thing)),
        partner=word("partner", partner, first.partner, strangers[1]),
        setting=word("setting", setting, first.setting, draw.other(settings, setting)),
        denied=denied,
        form=draw.below(3),
    )
    if "who" not in shared and "partner" not in shared and draw.chance(_SWAP):
        second = replace(second, who=first.partner, partner=first.who)
    score = sum(_WEIGHTS[part] for part in shared) / 10
    if draw.chance(0.2):
        second = replace(second, denied=not denied)
        score /= 2
    return first, second, score


def row(draw: Draw) -> dict[str, str | float]:
    """One example: two sentences, their score, and whether only one of them is negated."""
    first, second, score = _pair(draw)
    noise = 0.4 * (draw.uniform() + draw.uniform() - 1)
    rounded = round(min(5.0, max(0.0, score + noise)) * 5) / 5
    pattern = "one denied" if first.denied != second.denied else "alike"
    return {"text_a": first.tell(), "text_b": second.tell(), "score": rounded, "pattern": pattern}
