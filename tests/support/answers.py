"""Generated answers of every answer type: (gold, predictions) of a small split."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

TAGS = ["O", "B-a", "I-a", "B-b"]
WORDS = ["x", "y", "the z"]
GRID = st.integers(-12, 12).map(lambda number: number / 4)


@st.composite
def _labels(draw: DrawFn, rows: int) -> tuple[Any, Any]:
    ids = st.lists(st.integers(0, draw(st.integers(1, 4))), min_size=rows, max_size=rows)
    return np.array(draw(ids), int), np.array(draw(ids), int)


@st.composite
def _two_labels(draw: DrawFn, rows: int) -> tuple[Any, Any]:
    ids = st.lists(st.integers(0, 1), min_size=rows, max_size=rows)
    return np.array(draw(ids), int), np.array(draw(ids), int)


@st.composite
def _label_sets(draw: DrawFn, rows: int) -> tuple[Any, Any]:
    size = draw(st.integers(1, 4))
    flags = st.lists(st.lists(st.integers(0, 1), min_size=size, max_size=size), min_size=rows, max_size=rows)
    return tuple(np.array(draw(flags), int).reshape(rows, size) for _ in range(2))  # type: ignore[return-value]


@st.composite
def _choices(draw: DrawFn, rows: int) -> tuple[Any, Any]:
    return [1.0] * rows, draw(st.lists(st.sampled_from([0.0, 1.0]), min_size=rows, max_size=rows))


@st.composite
def _numbers(draw: DrawFn, rows: int) -> tuple[Any, Any]:
    outputs = draw(st.sampled_from([None, 1, 3]))
    count = rows * (outputs or 1)
    both = [np.array(draw(st.lists(GRID, min_size=count, max_size=count)), float) for _ in range(2)]
    return tuple(side if outputs is None else side.reshape(rows, outputs) for side in both)  # type: ignore[return-value]


@st.composite
def _texts(draw: DrawFn, rows: int) -> tuple[Any, Any]:
    text = st.lists(st.sampled_from(WORDS), max_size=3).map(" ".join)
    gold = draw(st.lists(st.lists(text, max_size=2), min_size=rows, max_size=rows))
    return gold, draw(st.lists(text, min_size=rows, max_size=rows))


@st.composite
def _tags(draw: DrawFn, rows: int) -> tuple[Any, Any]:
    word = st.tuples(st.sampled_from("pq"), st.sampled_from(TAGS), st.sampled_from(TAGS))
    sentences = draw(st.lists(st.lists(word, max_size=6), min_size=rows, max_size=rows))
    gold = [([w for w, _, _ in words], [tag for _, tag, _ in words]) for words in sentences]
    return gold, [[tag for _, _, tag in words] for words in sentences]


@st.composite
def _rankings(draw: DrawFn, rows: int) -> tuple[Any, Any]:
    candidate = st.tuples(st.integers(-1, 2), st.integers(0, 3))
    queries = draw(st.lists(st.lists(candidate, min_size=1, max_size=5), min_size=rows, max_size=rows))
    return [[float(r) for r, _ in query] for query in queries], [
        [float(s) for _, s in query] for query in queries
    ]


ANSWERS = {
    "labels": _labels,
    "two labels": _two_labels,
    "label_sets": _label_sets,
    "choices": _choices,
    "numbers": _numbers,
    "texts": _texts,
    "tags": _tags,
    "entities": _tags,
    "rankings": _rankings,
}
"""By answer type; `two labels` for the metrics that need them."""


def rows_of(answers: Any, chosen: list[int]) -> Any:
    """The answers of some rows, in their order, with repetitions."""
    return answers[np.array(chosen, int)] if isinstance(answers, np.ndarray) else [answers[i] for i in chosen]
