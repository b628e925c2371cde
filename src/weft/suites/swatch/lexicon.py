"""The words of the swatch tasks.

A *concept* is a tuple of synonyms. In the pair tasks every word that may change belongs to
a concept of two or more, so that a changed word alone reveals nothing: whether the meaning changed too
depends on which word it became.
"""

from __future__ import annotations

from weft.suites.swatch.grammar import Verb, verb, verbs, words

Concept = tuple[str, ...]
VerbConcept = tuple[Verb, ...]


def _concepts(text: str) -> tuple[Concept, ...]:
    """Concepts from a list such as `doctor/physician, lawyer/attorney`."""
    return tuple(tuple(word.strip() for word in part.split("/")) for part in text.split(",") if part.strip())


def _verb_concepts(text: str) -> tuple[VerbConcept, ...]:
    """The same for verbs, each in the notation of `grammar.verb`."""
    return tuple(tuple(verb(word) for word in concept) for concept in _concepts(text))


FEMALE = words("Anna Clara Dora Elena Grace Helen Irene Julia Karen Laura Maria Nora Paula Rosa Susan")
MALE = words("Adam Ben Carl David Eric Frank George Henry Ivan Jack Kevin Leo Martin Oscar Peter")
NAMES = FEMALE + MALE

# people by what they do
PEOPLE = _concepts("""
doctor/physician, lawyer/attorney, teacher/instructor, author/writer, reporter/journalist, kid/child,
student/pupil, actor/performer, chef/cook, pilot/aviator, thief/robber, guard/sentry, singer/vocalist,
boss/manager, worker/employee, scientist/researcher, guest/visitor, client/customer, professor/lecturer,
sailor/seaman, priest/clergyman, judge/magistrate, barber/hairdresser, coach/trainer
""")
ROLES = tuple(concept[0] for concept in PEOPLE) + words(
    "nurse baker farmer driver painter waiter tailor butcher plumber dentist banker clerk soldier poet"
)

# things that a person can carry, buy, hide and so on
THINGS = _concepts("""
couch/sofa, bike/bicycle, photo/picture, gift/present, rug/carpet, coat/jacket, cup/mug, stone/rock,
bag/sack, lamp/lantern, purse/handbag, parcel/package, diary/journal, bucket/pail, cushion/pillow,
statue/sculpture, jewel/gem, blanket/quilt, gun/pistol, flag/banner, barrel/cask, closet/wardrobe,
television/TV, hat/cap
""")
OBJECTS = tuple(concept[0] for concept in THINGS) + words(
    "violin clock mirror ladder basket ring kettle guitar camera chair letter key vase hammer"
)

# a person does this to a person
TO_PEOPLE = _verb_concepts("""
help/assist, call/phone, follow/chase, praise/compliment, warn/caution, protect/defend, trick/fool,
push/shove, hit hit hit hitting/strike struck struck, scold/rebuke, annoy/irritate, scare/frighten,
rescue/save, interview/question, admire/respect, hug*/embrace, mock/ridicule, greet/welcome,
insult/offend, comfort/console, beat beat beaten/defeat, injure/wound, fire/dismiss, hire/employ
""")

# a person does this to a thing
TO_THINGS = _verb_concepts("""
buy bought bought/purchase, repair/fix, find found found/locate, hide hid hidden/conceal,
break broke broken/smash, choose chose chosen/select, clean/wash, carry/haul, examine/inspect,
ruin/wreck, draw drew drawn/sketch, lose lost lost/misplace, show showed shown/display,
fetch/bring brought brought, need/require
""")

# opposites that a person can do to a thing
OPPOSITE_ACTS = _verb_concepts("""
buy bought bought/sell sold sold, find found found/lose lost lost, open/close, accept/reject,
lift/lower, hide hid hidden/reveal, repair/break broke broken, keep kept kept/discard, load/unload,
praise/criticize, love/hate, wrap*/unwrap*
""")

# opposites that leave no third
EXCLUSIVE_ACTS = _verb_concepts("""
remember/forget forgot forgotten forgetting, keep kept kept/discard, accept/reject, include/omit*,
spare/destroy, notice/overlook, allow/forbid forbade forbidden forbidding, see saw seen/miss
""")
EXCLUSIVE_STATES = _concepts("""
open/closed, present/absent, visible/hidden, complete/incomplete, safe/unsafe, legal/illegal, real/fake,
locked/unlocked, moving/still, broken/intact, used/unused, finished/unfinished
""")

PLACES = _concepts("""
at the store/at the shop, in the woods/in the forest, at the harbor/at the port,
in the cellar/in the basement, on the street/on the road, at the seaside/at the coast,
in the yard/in the garden, at the movies/at the cinema, in the attic/in the loft,
at the airport/at the airfield, in the bathroom/in the restroom
""")
TIMES = _concepts("""
at noon/at midday, at daybreak/at dawn, at nightfall/at dusk, in the fall/in autumn,
on Christmas Eve/on December 24, yesterday evening/last night, a century ago/a hundred years ago,
every day/daily, every week/weekly, twice/two times, at once/immediately
""")
MANNERS = _concepts("""
quickly/rapidly, quietly/silently, carefully/cautiously, secretly/in secret, happily/cheerfully,
angrily/in anger, often/frequently, rarely/seldom, by accident/accidentally, on purpose/deliberately
""")
SINGLE_PLACES = (
    *(concept[0] for concept in PLACES),
    *("in the kitchen", "at the station", "in the library", "near the river", "in the office"),
    *("at the museum", "in the park", "at the market", "on the bridge", "behind the church"),
)
SINGLE_TIMES = (
    *("at noon", "at daybreak", "at nightfall", "in the fall", "on Christmas Eve", "yesterday evening"),
    *("yesterday", "last week", "on Monday", "on Friday", "in March", "in July", "this morning"),
    *("two days ago", "last summer", "before breakfast"),
)

# a kind of thing and what belongs to it
KINDS = (
    ("animal", words("dog horse cat goat rabbit cow")),
    ("bird", words("parrot sparrow eagle owl swan pigeon")),
    ("flower", words("rose tulip lily daisy orchid")),
    ("fruit", words("apple pear banana melon peach")),
    ("vegetable", words("carrot cabbage onion potato turnip")),
    ("instrument", words("guitar violin trumpet flute piano")),
    ("tool", words("hammer saw shovel drill wrench")),
    ("vehicle", words("car truck bus van tractor")),
    ("garment", words("shirt skirt dress sweater vest")),
    ("weapon", words("sword rifle pistol dagger spear")),
    ("tree", words("oak pine willow maple birch")),
    ("toy", words("doll puppet kite balloon marble")),
)

# opposite qualities: no thing has both
OPPOSITE_QUALITIES = _concepts("""
big/small, heavy/light, new/old, clean/dirty, cheap/expensive, wet/dry, hot/cold, hard/soft, thick/thin,
bright/dark, smooth/rough, pretty/ugly
""")
QUALITIES = tuple(word for pair in OPPOSITE_QUALITIES for word in pair)
COLORS = words("red blue green yellow black white brown gray purple")

# comparisons: A is ONE than B says the same as B is TWO than A
COMPARISONS = _concepts("""
taller/shorter, older/younger, richer/poorer, faster/slower, heavier/lighter, stronger/weaker,
happier/sadder, busier/lazier
""")

# verbs whose base, past and participle all differ
STRONG = verbs("""
hide hid hidden, steal stole stolen, break broke broken, choose chose chosen, draw drew drawn,
throw threw thrown, give gave given, take took taken, forget forgot forgotten, see saw seen,
wear wore worn, shake shook shaken, drive drove driven, eat ate eaten, know knew known
""")
# verbs that cannot do without an object, and verbs that have none
WITH_OBJECT = verbs("""
repair, carry, admire, describe, examine, fetch, inspect, purchase, destroy, find found found, damage,
discard, obtain, use, hold held held, grab*, mention, recommend, misplace, bring brought brought,
select, remove, locate, prepare
""")
WITHOUT_OBJECT = verbs("""
sleep slept slept, arrive, vanish, smile, cough, sneeze, faint, laugh, yawn, tremble, giggle,
weep wept wept, snore, blush, shiver, kneel knelt knelt, wait, hesitate, doze, hiccup
""")
