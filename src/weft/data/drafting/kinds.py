"""The kind of a task, by the values of its label column."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from weft.data.drafting.column import Column
from weft.data.drafting.names import plain
from weft.tasks.values import is_missing, number_of

RATINGS = ("rating", "ratings", "stars", "score", "scores", "grade", "points", "similarity")
FEW = 20
"""Up to this number of distinct whole numbers are classes."""


@dataclass(frozen=True)
class KindGuess:
    """The kind of a task.

    Attributes:
        kind: the guess.
        others: further kinds that the values allow.
        reason: what speaks for the guess.
        doubt: why it is not certain; empty if it is.
        separator: `multilabel`: what separates the labels in a text; empty for lists.
        drop: `regress`: the few values that are no numbers, such as `N/A`.
    """

    kind: str
    others: tuple[str, ...] = ()
    reason: str = ""
    doubt: str = ""
    separator: str = ""
    drop: tuple[str, ...] = ()


def guess_kind(column: Column, values: Sequence[object], paired: bool = False) -> KindGuess:
    """Guess the kind from one column of labels.

    - lists, or texts that are separated lists: `multilabel`;
    - numbers with fractions, or many distinct ones: `regress`;
    - a few whole numbers: `classify`; of ratings such as 1 to 5, `regress` is stated as an alternative;
    - few distinct texts: `classify`.

    Example:
        >>> stars = ["1", "3", "4", "5"]
        >>> guess_kind(profile("stars", stars), stars).others
        ('regress',)

    Args:
        column: its statistics.
        values: its values.
        paired: whether the task has two texts.
    """
    numeric = ("regress", "similarity") if paired else ("regress",)
    if column.lists >= 0.9:
        return KindGuess("multilabel", (), "lists of labels")
    if column.flags == 1:
        return KindGuess("classify", (), "true and false")
    if column.is_number:
        return _of_numbers(column, numeric)
    if column.numbers >= 0.9 and (column.wholes < 0.9 or column.distinct > FEW):
        odd = {str(v).strip() for v in values if not is_missing(v) and number_of(v) is None}
        if len(odd) <= 5:
            listed = ", ".join(sorted(odd))
            doubt = f"{1 - column.numbers:.1%} of the labels are no numbers ({listed}): they are dropped"
            return KindGuess("regress", numeric[1:], "numbers", doubt, drop=tuple(sorted(odd)))
    separator, share = separator_of(values)
    if separator:
        doubt = "" if share >= 0.1 else f"only {share:.0%} of the labels have a {separator!r}"
        return KindGuess("multilabel", ("classify",), f"labels separated by {separator!r}", doubt, separator)
    doubt = "" if column.repeats else "most labels occur once"
    return KindGuess("classify", (), f"{column.distinct:,} distinct values", doubt)


def _of_numbers(column: Column, numeric: tuple[str, ...]) -> KindGuess:
    span = f"{column.low:g} to {column.high:g}"
    if column.wholes < 1:
        others = numeric[1:]
        return KindGuess("regress", others, f"numbers with fractions, {span}")
    reason = f"{column.distinct:,} whole numbers, {span}"
    if column.distinct <= 2:
        return KindGuess("classify", (), reason)
    contiguous = column.high - column.low + 1 == column.distinct
    rating = plain(column.name) in RATINGS or (column.low == 1 and column.high in (4, 5, 6, 7, 10))
    if column.distinct <= FEW:
        doubt = "whole numbers may be classes or a scale" if rating or not contiguous else ""
        return KindGuess("classify", numeric if column.distinct > 3 else (), reason, doubt)
    if contiguous and column.low in (0, 1) and column.present >= 10 * column.distinct and not rating:
        return KindGuess("classify", numeric, reason, "so many whole numbers may be classes or a scale")
    others = ("classify", *numeric[1:]) if column.distinct <= 100 and column.repeats else numeric[1:]
    return KindGuess("regress", others, reason, "whole numbers may be classes or a scale" if others else "")


def separator_of(values: Sequence[object]) -> tuple[str, float]:
    """Return what separates labels within a text, and the share of texts that have it; "" if nothing does.

    A separator is right if at least half of the parts recur in different values: "love|sea" and "sea". In
    "bed, bath" alone the comma belongs to a name.
    """
    texts = [value for value in values if isinstance(value, str) and not is_missing(value)]
    distinct = set(texts)
    for separator in ("|", ";", ","):
        split = [{part.strip() for part in text.split(separator) if part.strip()} for text in distinct]
        joined = {part for parts in split if len(parts) > 1 for part in parts}
        if not joined or sum(len(part.split()) for part in joined) > 4 * len(joined):
            continue
        values_with = Counter(part for parts in split for part in parts)
        if 2 * sum(values_with[part] > 1 for part in joined) >= len(joined):
            return separator, sum(separator in text for text in texts) / len(texts)
    return "", 0.0
