"""sentiment: is the sentence's verdict on its topic positive or negative?

Every pattern is used for both verdicts, and most contain words of both polarities or negate a word, so that
both classes have nearly the same words and their order decides.
"""

from __future__ import annotations

from collections.abc import Callable

from weft.suites.swatch.grammar import Draw, Weighted, a, plural, sentence, verbs, words

LABELS = ("negative", "positive")

# topics, and aspects of them that can be judged separately
_TOPICS = {
    "film": ("acting", "plot", "music", "ending"),
    "play": ("acting", "stage design", "first act", "dialogue"),
    "novel": ("plot", "style", "opening chapter", "cover"),
    "concert": ("sound", "lighting", "first song", "crowd"),
    "hotel": ("location", "breakfast", "service", "pool"),
    "restaurant": ("service", "dessert", "wine list", "decor"),
    "meal": ("soup", "dessert", "bread", "wine"),
    "museum": ("gift shop", "tour", "building", "cafe"),
    "trip": ("weather", "flight", "guide", "food"),
    "lecture": ("handout", "first half", "room", "topic"),
    "phone": ("camera", "screen", "battery", "design"),
    "laptop": ("keyboard", "screen", "price", "sound"),
    "game": ("story", "control scheme", "soundtrack", "tutorial"),
    "course": ("textbook", "teacher", "homework", "schedule"),
    "party": ("music", "food", "venue", "speech"),
    "show": ("host", "first episode", "script", "music"),
    "apartment": ("kitchen", "view", "balcony", "neighborhood"),
    "ride": ("driver", "seat", "route", "price"),
}
# many rare words: their meaning has to come from the encoder
_ADJECTIVES = (
    words("""
    awful terrible dreadful horrible dismal miserable disappointing mediocre lousy poor unpleasant appalling
    tedious dull annoying pathetic shoddy atrocious bad unbearable boring ugly horrid abysmal frustrating
    depressing nasty inferior ghastly useless tiresome dreary irritating wretched clumsy lame disgusting
    uninspired laughable worthless
    """),
    words("""
    wonderful excellent superb terrific delightful splendid brilliant fantastic marvelous lovely great
    impressive pleasant charming outstanding enjoyable amazing admirable good memorable beautiful gorgeous
    fabulous magnificent inspiring refreshing captivating superior exquisite valuable exciting fascinating
    satisfying glorious elegant remarkable stunning thrilling perfect heavenly
    """),
)
_NOUNS = (
    words("disaster mess failure letdown bore disgrace nightmare flop insult mistake"),
    words("triumph delight success treat joy masterpiece pleasure gem blessing hit"),
)
_FEELINGS = (
    verbs("hate, dislike, detest, loathe, regret*"),
    verbs("love, like, enjoy, adore, cherish"),
)
_JUDGES = ("critics", "my friends", "some people", "most visitors", "the papers", "my parents", "many people")


class _Words:
    """The words of one sentence: its topic, the verdict on it, and the opposite verdict."""

    def __init__(self, draw: Draw, verdict: int) -> None:
        self.draw = draw
        self.verdict = verdict
        self.topic, self.other_topic = draw.sample(tuple(_TOPICS), 2)
        self.part = draw.pick(_TOPICS[self.topic])
        self.adjective, self.opposite = draw.pick(_ADJECTIVES[verdict]), draw.pick(_ADJECTIVES[1 - verdict])
        # what can follow `was`: the adjective or a noun
        self.judgment = a(draw.pick(_NOUNS[verdict])) if draw.chance(0.25) else self.adjective
        self.against = a(draw.pick(_NOUNS[1 - verdict])) if draw.chance(0.25) else self.opposite
        self.judges = draw.pick(_JUDGES)
        feeling, other_feeling = draw.pick(_FEELINGS[verdict]), draw.pick(_FEELINGS[1 - verdict])
        self.feel, self.felt = feeling.base, feeling.past
        self.not_feel, self.not_felt = other_feeling.base, other_feeling.past

    def pick(self, *options: str) -> str:
        return self.draw.pick(options)


def _plain(w: _Words) -> str:
    return w.pick(
        sentence("the", w.topic, "was", w.judgment),
        sentence("I found the", w.topic, w.adjective),
        sentence("what", a(w.adjective), w.topic, "that was"),
        sentence("we all", w.felt, "the", w.topic),
    )


def _negated(w: _Words) -> str:
    negation = w.pick("not", "never", "hardly", "by no means", "anything but", "far from", "in no way")
    return w.pick(
        sentence("the", w.topic, "was", negation, w.against),
        sentence("the", w.part, "of the", w.topic, "was", negation, w.against),
        sentence("nobody could call the", w.topic, w.against),
        sentence("I would not call the", w.topic, w.against),
        sentence("there was nothing", w.opposite, "about the", w.topic),
        sentence("I did not", w.not_feel, "the", w.topic, w.pick("", "at all", "in the least")),
    )


def _doubly_negated(w: _Words) -> str:
    return w.pick(
        sentence("nobody could say that the", w.topic, "was not", w.judgment),
        sentence("I cannot deny that the", w.topic, "was", w.judgment),
        sentence("it is not true that I did not", w.feel, "the", w.topic),
        sentence("I disagree with those who deny that the", w.topic, "was", w.judgment),
        sentence("it is not true that the", w.topic, "was", w.against),
        sentence("I disagree with those who call the", w.topic, w.against),
        sentence("it would be wrong to call the", w.topic, w.against),
        sentence("it would be wrong not to call the", w.topic, w.judgment),
    )


def _but(w: _Words) -> str:
    return w.pick(
        sentence("the", w.part, "was", w.against, ", but the", w.topic, "as a whole was", w.judgment),
        sentence("the", w.topic, "had", a(w.opposite), w.part, ", but it was", w.judgment),
        sentence("I", w.not_felt, "the", w.part, ", but the", w.topic, "was", w.judgment),
        sentence("the", w.part, "was", w.against, ", but I", w.felt, "the", w.topic),
    )


def _although(w: _Words) -> str:
    link = w.pick("although", "even though", "though", "while")
    aside = w.pick(f"the {w.part} was {w.against}", f"I {w.not_felt} the {w.part}")
    main = w.pick(f"the {w.topic} was {w.judgment}", f"I {w.felt} the {w.topic}")
    return w.pick(sentence(link, aside, ",", main), sentence(main, ",", link, aside))


def _expected(w: _Words) -> str:
    return w.pick(
        sentence("I expected", a(w.opposite), w.topic, ", but it turned out to be", w.judgment),
        sentence("I thought I would", w.not_feel, "the", w.topic, ", but I", w.felt, "it"),
        sentence("the", w.topic, "turned out", w.adjective, "when I had expected it to be", w.against),
        sentence("I", w.felt, "the", w.topic, "that I had expected to", w.not_feel),
    )


def _hearsay(w: _Words) -> str:
    agree = w.pick("and they are right", "and I agree", "and that is true")
    differ = w.pick("but they are wrong", "but I disagree", "but that is false")
    if w.draw.chance(0.5):
        return sentence(w.judges, "say that the", w.topic, "was", w.judgment, ",", agree)
    return sentence(w.judges, "say that the", w.topic, "was", w.against, ",", differ)


def _hoped(w: _Words) -> str:
    good, bad = (w.judgment, w.against) if w.verdict else (w.against, w.judgment)
    came_true = w.pick("and it was", "and I was right")
    did_not = w.pick("but it was not", "but I was wrong")
    if w.draw.chance(0.5):
        end = came_true if w.verdict else did_not
        return sentence(w.pick("I hoped", "I was sure"), "the", w.topic, "would be", good, ",", end)
    end = did_not if w.verdict else came_true
    return sentence(w.pick("I feared", "I was sure"), "the", w.topic, "would be", bad, ",", end)


def _changed(w: _Words) -> str:
    return w.pick(
        sentence("the", w.topic, "used to be", w.against, ", but now it is", w.judgment),
        sentence("the", w.topic, "is", w.judgment, "now, but it used to be", w.against),
        sentence("the", w.topic, "started out", w.opposite, "and ended up", w.adjective),
        sentence("at first I", w.not_felt, "the", w.topic, ", but in the end I", w.felt, "it"),
    )


def _compared(w: _Words) -> str:
    return w.pick(
        sentence("unlike the", w.opposite, w.other_topic, ", the", w.topic, "was", w.judgment),
        sentence("the", w.topic, "was as", w.adjective, "as the", w.other_topic, "was", w.opposite),
        sentence("after", a(w.opposite), w.other_topic, "we had", a(w.adjective), w.topic),
        sentence("I have never had a more", w.adjective, w.topic),
        sentence("I have had far more", w.opposite, plural(w.topic), "than this one"),
    )


_PATTERNS: Weighted[Callable[[_Words], str]] = (
    (("plain", _plain), 2),
    (("negated", _negated), 4),
    (("doubly negated", _doubly_negated), 4),
    (("but", _but), 2),
    (("although", _although), 3),
    (("expected", _expected), 2),
    (("hearsay", _hearsay), 3),
    (("hoped", _hoped), 3),
    (("changed", _changed), 2),
    (("compared", _compared), 3),
)


def row(draw: Draw) -> dict[str, str | float]:
    """One example: a sentence, its verdict and the pattern it was built by."""
    verdict = int(draw.chance(0.53))
    pattern, build = draw.weighted(_PATTERNS)
    return {"text": build(_Words(draw, verdict)), "label": LABELS[verdict], "pattern": pattern}
