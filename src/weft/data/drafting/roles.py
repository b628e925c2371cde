"""Which columns hold the texts and which the label, by their names and by their content."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from weft.data.drafting.column import Column
from weft.data.drafting.names import (
    PAIRS,
    SPLIT_COLUMNS,
    is_aside,
    is_id,
    is_text,
    label_points,
    numbered,
    plain,
)

LABEL_VALUES = 1000
"""The largest number of distinct texts that a column of labels may have."""


@dataclass(frozen=True)
class RoleGuess:
    """The columns that have a role.

    Attributes:
        columns: the guess: one column or two.
        others: further candidates, the best first.
        reason: what speaks for the guess.
        doubt: why it is not certain; empty if it is.
    """

    columns: tuple[str, ...]
    others: tuple[str, ...] = ()
    reason: str = ""
    doubt: str = ""


def looks_like_text(column: Column) -> bool:
    """Whether a column holds texts of some words, and not names, dates, ids or labels."""
    if column.texts < 0.8 or column.letters < 0.5:
        return False
    if is_id(column.name) and column.words < 4:
        return False
    named = is_text(column.name)
    few = column.repeats and (column.distinct <= 30 or (label_points(column.name) >= 6 and column.words < 6))
    return not few and (column.words >= 2 or named)


def text_points(column: Column) -> float:
    """How much speaks for the text: log₂(1 + words), 3 more for its name, 4 less for that of a text aside."""
    return math.log2(1 + column.words) + 3 * is_text(column.name) - 4 * is_aside(column.name)


def guess_texts(columns: Sequence[Column]) -> RoleGuess | None:
    """Guess the text column, or the two columns of a pair; None if no column holds texts.

    Two columns are a pair by their names (`premise` and `hypothesis`, `text_a` and `text_b`), or, with a
    doubt, if both have texts of similar length and neither is a title or the like.
    """
    candidates = sorted(filter(looks_like_text, columns), key=text_points, reverse=True)
    if not candidates:
        return None
    names = [column.name for column in candidates]
    if (pair := _named_pair(columns, candidates)) is not None:
        others = tuple(name for name in names if name not in pair)
        doubt = f"there are {len(names)} text columns" if others and not all(map(is_aside, others)) else ""
        return RoleGuess(pair, others, "a pair by their names", doubt)
    best, *rest = candidates
    others = tuple(column.name for column in rest)
    main = [column for column in rest if not is_aside(column.name)]
    if main and min(best.words, main[0].words) >= 4:
        second = main[0]
        if max(best.words, second.words) <= 4 * min(best.words, second.words) and not is_aside(best.name):
            # the order of the file
            pair = tuple(column.name for column in columns if column in (best, second))
            left = tuple(name for name in others if name not in pair)
            doubt = "two columns hold texts of similar length: both are used as a pair"
            return RoleGuess(pair, (best.name, second.name, *left), "two text columns", doubt)
    reason = f"{best.words:.0f} words on average"
    close = [column.name for column in main if text_points(best) - text_points(column) < 1]
    doubt = f"{' and '.join(close)} could be the text too" if close else ""
    return RoleGuess((best.name,), others, reason, doubt)


def _named_pair(columns: Sequence[Column], candidates: Sequence[Column]) -> tuple[str, ...] | None:
    """Two columns whose names belong together, in the file's order or that of `PAIRS`."""
    names = {plain(column.name): column.name for column in candidates}
    for first, second in PAIRS:
        if first in names and second in names:
            return names[first], names[second]
    stems: dict[str, list[str]] = {}
    for column in columns:
        if column in candidates and (parts := numbered(column.name)) is not None:
            stems.setdefault(parts[0], []).append(column.name)
    pairs = [tuple(group) for group in stems.values() if len(group) == 2]
    return pairs[0] if len(pairs) == 1 else None


def looks_like_label(column: Column) -> bool:
    """Whether a column may hold labels: few distinct texts, numbers, true and false, or lists."""
    if column.distinct < 2 or plain(column.name) in SPLIT_COLUMNS:
        return False
    points = label_points(column.name)
    if is_id(column.name) and not points:
        return False
    if column.numbers == 1:
        # a running number is no label
        return not (column.wholes == 1 and column.distinct == column.present > 10 and points < 6)
    if column.lists >= 0.9:
        return True
    if column.flags == 1:
        return True
    few = column.repeats or column.distinct <= 3
    return (few and column.distinct <= LABEL_VALUES and column.words < 8) or (
        points >= 8 and column.words < 8
    )


def label_score(column: Column, last: bool) -> float:
    """How much speaks for a label: its name, few distinct values, the last place, and no name of an aside."""
    few = column.repeats and column.distinct <= 30
    return label_points(column.name) + 3 * few + last - 2 * is_aside(column.name)


def guess_label(columns: Sequence[Column], texts: Sequence[str]) -> RoleGuess | None:
    """Guess the column of the label; None if no column could be one.

    Args:
        columns: the columns of the file.
        texts: the columns of the texts.
    """
    candidates = [column for column in columns if column.name not in texts and looks_like_label(column)]
    if not candidates:
        return None
    scores = {column.name: label_score(column, column is columns[-1]) for column in candidates}
    ranked = sorted(candidates, key=lambda column: -scores[column.name])
    best, *rest = ranked
    others = tuple(column.name for column in rest)
    if label_points(best.name) >= 4:
        reason = "by its name"
        close = [column.name for column in rest if scores[best.name] - scores[column.name] < 2]
        doubt = f"{' and '.join(close)} could be the label too" if close else ""
    else:
        reason = f"{best.distinct:,} distinct values"
        doubt = f"no name says so, and {' and '.join(others[:3])} could be the label too" if others else ""
    return RoleGuess((best.name,), others, reason, doubt)
