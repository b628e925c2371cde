"""Kinds that are known by the structure of several columns: span, tag, choose, rank, and 0/1 columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from weft.data.drafting.column import Column, word_count
from weft.data.drafting.names import CHOICES, is_id, label_points, numbered, plain
from weft.data.drafting.roles import guess_texts
from weft.tasks.values import is_missing, whole

Values = Mapping[str, Sequence[object]]


@dataclass(frozen=True)
class Structured:
    """A task that several columns define.

    Attributes:
        kind: its kind.
        texts: its text columns.
        label: its label column, or columns.
        reason: what speaks for it.
        settings: further keys of the task.
        with_cut: keys that are needed if validation rows are cut off the training file.
        values: how labels are replaced, old → new.
    """

    kind: str
    texts: tuple[str, ...]
    label: str | tuple[str, ...]
    reason: str
    settings: dict[str, Any] = field(default_factory=dict)
    with_cut: dict[str, Any] = field(default_factory=dict)
    values: dict[str, int] = field(default_factory=dict)


def find_structured(columns: Sequence[Column], values: Values) -> Structured | None:
    """Return the task that the columns define together; None if it is one of a text and one label column."""
    for find in (_span, _tag, _lists_of_texts, _tag_in_texts, _choices, _flags):
        if (structured := find(columns, values)) is not None:
            return structured
    return None


def _span(columns: Sequence[Column], values: Values) -> Structured | None:
    answers = [
        column.name
        for column in columns
        if column.objects >= 0.9
        and all(_is_answer(value) for value in values[column.name] if value is not None)
    ]
    texts = [
        column for column in columns if column.texts >= 0.9 and column.words >= 2 and not is_id(column.name)
    ]
    if not answers or len(texts) < 2:
        return None
    by_name = {plain(column.name): column for column in texts}
    shorter, longer = sorted(
        sorted(texts, key=lambda column: -column.words)[:2], key=lambda column: column.words
    )
    question = by_name.get("question", by_name.get("query", shorter))
    context = by_name.get("context", by_name.get("passage", longer if longer is not question else shorter))
    group = {"group": [context.name]} if context.repeats else {}
    reason = f"{answers[0]} has texts with their positions"
    return Structured("span", (question.name, context.name), answers[0], reason, with_cut=group)


def _is_answer(value: object) -> bool:
    return isinstance(value, dict) and "text" in value and "answer_start" in value


def _tag(columns: Sequence[Column], values: Values) -> Structured | None:
    lists = [column for column in columns if column.lists >= 0.9]
    for words in lists:
        items = [item for value in values[words.name][:500] for item in _items(value)]
        if not items or not all(isinstance(item, str) for item in items):
            continue
        if sum(map(word_count, items)) > 1.5 * len(items):  # a list of sentences
            continue
        tags = [
            column
            for column in lists
            if column is not words
            and _equal_lengths(values[words.name], values[column.name])
            and _distinct_items(values[column.name]) < _distinct_items(values[words.name])
        ]
        if tags:
            label = max(tags, key=lambda column: label_points(column.name))
            return Structured("tag", (words.name,), label.name, f"{label.name} has one tag per word")
    return None


def _tag_in_texts(columns: Sequence[Column], values: Values) -> Structured | None:
    """Words and tags as two texts with equally many words."""
    texts = [column for column in columns if column.texts >= 0.9 and column.words > 1.5]
    split = {c.name: [v.split() if isinstance(v, str) else None for v in values[c.name]] for c in texts}
    for words in texts:
        for tags in texts:
            if words is tags or not _equal_lengths(split[words.name], split[tags.name]):
                continue
            if 5 * _distinct_items(split[tags.name]) < _distinct_items(split[words.name]):
                return Structured("tag", (words.name,), tags.name, f"{tags.name} has one tag per word")
    return None


def _lists_of_texts(columns: Sequence[Column], values: Values) -> Structured | None:
    """A query, a list of texts, and the number of the right one or a relevance for each."""
    for choices in (column for column in columns if column.lists >= 0.9):
        items = [item for value in values[choices.name][:500] for item in _items(value)]
        if not items or not all(isinstance(item, str) for item in items):
            continue
        rest = [column for column in columns if column is not choices]
        texts = guess_texts(rest)
        if texts is None:
            continue
        settings = {"choices": [choices.name]}
        for column in rest:
            cells = values[column.name]
            numbers = all(isinstance(item, int | float) for value in cells for item in _items(value))
            if column.lists >= 0.9 and numbers and _equal_lengths(values[choices.name], cells):
                reason = f"{column.name} has one number per text of {choices.name}"
                return Structured("rank", texts.columns[:1], column.name, reason, settings)
            if column.wholes == 1 and label_points(column.name) and column.low >= 0:
                sizes = [len(_items(value)) for value in values[choices.name]]
                if all((whole(cell) or 0) < size for cell, size in zip(cells, sizes, strict=True)):
                    reason = f"{column.name} is the number of a text of {choices.name}"
                    return Structured("choose", texts.columns, column.name, reason, settings)
    return None


def _choices(columns: Sequence[Column], values: Values) -> Structured | None:
    """Several numbered columns of choices, and the number or letter of the right one."""
    stems: dict[str, list[tuple[str, str]]] = {}
    for column in columns:
        parts = numbered(column.name)
        if parts is not None and parts[0] in CHOICES and column.texts >= 0.5:
            stems.setdefault(parts[0], []).append((parts[1], column.name))
    if not stems:
        return None
    choices = max(stems.values(), key=len)
    names = [name for _, name in choices]
    texts = guess_texts([column for column in columns if column.name not in names])
    if len(names) < 2 or texts is None:
        return None
    for column in sorted(columns, key=lambda column: -label_points(column.name)):
        if column.name in (*names, *texts.columns) or not label_points(column.name):
            continue
        ids = {str(value).strip() for value in values[column.name] if not is_missing(value)}
        if (mapping := _choice_ids(ids, choices)) is not None:
            reason = f"{column.name} is the number of one of {len(names)} choices"
            return Structured(
                "choose", texts.columns[:1], column.name, reason, {"choices": names}, values=mapping
            )
    return None


def _choice_ids(ids: set[str], choices: Sequence[tuple[str, str]]) -> dict[str, int] | None:
    """How the labels become numbers from 0: {} if they are, None if they are no choices."""
    count = len(choices)
    forms: list[dict[str, int]] = [
        {str(i): i for i in range(count)},
        {str(i + 1): i for i in range(count)},
        {"abcdefgh"[i].upper(): i for i in range(min(count, 8))},
        {"abcdefgh"[i]: i for i in range(min(count, 8))},
        {name: i for i, (_, name) in enumerate(choices)},
    ]
    for number, form in enumerate(forms):
        if ids <= set(form):
            return {} if number == 0 else form
    return None


def _flags(columns: Sequence[Column], values: Values) -> Structured | None:
    """Several columns of 0 and 1, one per label, if none of them is named like a single label."""
    flags = [
        column.name
        for column in columns
        if column.present == column.rows
        and not is_id(column.name)
        and {whole(v) if not isinstance(v, bool) else int(v) for v in values[column.name]} == {0, 1}
    ]
    if len(flags) < 3 or any(label_points(column.name) >= 6 for column in columns):
        return None
    texts = guess_texts([column for column in columns if column.name not in flags])
    if texts is None:
        return None
    reason = f"{len(flags)} columns of 0 and 1"
    return Structured("multilabel", texts.columns[:1], tuple(flags), reason, {"labels": flags})


def _items(value: object) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else []


def _distinct_items(values: Sequence[object]) -> int:
    return len({str(item) for value in values for item in _items(value)})


def _equal_lengths(first: Sequence[object], second: Sequence[object]) -> bool:
    pairs = [(a, b) for a, b in zip(first, second, strict=True) if a is not None and b is not None]
    return bool(pairs) and all(len(_items(a)) == len(_items(b)) for a, b in pairs)
