"""What the usual names of columns and files mean."""

from __future__ import annotations

import re


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


TEXTS = _words(
    "text texts sentence sentences content contents body review reviews comment comments tweet message "
    "document kommentar texto texte commentaire comentario avis rezension opinion "
    "doc question premise hypothesis description abstract utterance query passage paragraph article post "
    "input prompt statement claim headline transcript feedback answer context email sms news story "
    "reviewtext"
)
"""Names of texts, in lower case and without `_` and `-`."""

ASIDE = _words(
    "title subject headline heading summary note notes remark remarks author user username name source "
    "product url link lang language"
)
"""Names of texts that go with another one, such as a title: used only if there is no other."""

LABELS = {
    **dict.fromkeys(("label", "labels", "goldlabel", "gold", "target", "targets", "y", "nertags"), 10),
    **dict.fromkeys(
        ("class", "classes", "category", "categories", "sentiment", "intent", "topic", "topics"), 8
    ),
    **dict.fromkeys(("kategorie", "categorie", "categoria", "klasse", "classe", "clase", "etiqueta"), 8),
    **dict.fromkeys(("bewertung", "etikett", "thema", "tema"), 6),
    **dict.fromkeys(("emotion", "emotions", "polarity", "tag", "tags", "stance", "genre", "genres"), 7),
    **dict.fromkeys(("rating", "ratings", "stars", "score", "scores", "similarity", "grade", "output"), 6),
    **dict.fromkeys(("rank", "relevance", "type", "code", "verdict", "answer", "answers", "toxicity"), 4),
}
"""Names of labels, with how much each speaks for a label."""

IDS = _words(
    "id ids idx index uid guid uuid key pk row rowid rownumber number no nr unnamed date datetime time "
    "timestamp createdat updatedat created updated url uri link path filename file author "
    "user username email phone ip hash md5 sha"
)
"""Names of columns that identify a row or say when, where and by whom it was written."""

SPLITS = {
    **dict.fromkeys(("train", "training", "trn"), "train"),
    **dict.fromkeys(
        ("validation", "valid", "val", "dev", "devel", "develop", "development", "eval"), "validation"
    ),
    **dict.fromkeys(("test", "testing", "tst", "heldout"), "test"),
}
"""The words for splits."""

SPLIT_COLUMNS = _words("split splits set fold folds subset partition usage")
"""Names of columns that say which split a row belongs to."""

PAIRS = (
    ("premise", "hypothesis"),
    ("question", "sentence"),
    ("question", "passage"),
    ("question", "context"),
    ("question", "paragraph"),
    ("query", "passage"),
    ("query", "document"),
    ("query", "title"),
    ("claim", "evidence"),
    ("source", "target"),
    ("context", "response"),
    ("question", "answer"),
    ("text", "hypothesis"),
    ("post", "reply"),
)
"""Names of the two texts of a pair."""

CHOICES = ("choice", "option", "ending", "answer", "candidate", "alternative", "sol")
"""Names of the choices of a multiple-choice question, before their number or letter."""

_LAST = re.compile(r"^(.*?)[_\- ]?(\d{1,2}|[a-hA-H])$")


def plain(name: str) -> str:
    """Return a column's name in lower case, with letters and digits only."""
    return re.sub(r"[\W_]+", "", name.lower())


def numbered(name: str) -> tuple[str, str] | None:
    """Split a name into a stem and its number or letter: ("sentence", "1") of `sentence1`; else None.

    A letter counts only after `_`, `-` or a space: the last letter of `idea` is no number.
    """
    match = _LAST.match(name.strip())
    if match is None or (match[2].isalpha() and len(name.strip()) - len(match[1]) == 1 and match[1]):
        return None
    return plain(match[1]), match[2].lower()


def is_id(name: str) -> bool:
    """Whether a name is that of an identifier, such as `id`, `user_id` or `commentId`."""
    return (
        plain(name) in IDS
        or re.search(r"(^|[_\- ])(id|idx|uuid|guid|ids)$|[a-z]I[dD]$", name.strip()) is not None
        or (re.match(r"(id|idx|unnamed)[_\- :]", name.strip().lower()) is not None)
    )


def label_points(name: str) -> int:
    """Return how much a name speaks for a label, 0 to 10."""
    word = plain(name)
    if word in LABELS:
        return LABELS[word]
    if re.match(r"(is|has)[_A-Z]", name.strip()):
        return 6
    # "Sentiment label", "review_stars"
    parts = [part for part in re.split(r"[\W_]+", name.lower()) if part]
    return max((LABELS.get(part, 0) for part in parts), default=0) // 2


def is_text(name: str) -> bool:
    """Whether a name is that of a text, such as `review_text`."""
    parts = [part for part in re.split(r"[\W_\d]+", name.lower()) if part]
    return (
        plain(name) in TEXTS
        or plain(re.sub(r"\d+$", "", name)) in TEXTS
        or any(part in TEXTS for part in parts)
    )


def is_aside(name: str) -> bool:
    """Whether a name is that of a text beside the main one."""
    return plain(name) in ASIDE
