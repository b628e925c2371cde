"""SQuAD's json files, v1.1: articles, their paragraphs, and the questions on each.

A question of v2.0 without an answer (`is_impossible`) has an empty list of answers. weft's `span` answers
every question, as v1.1 requires, so such a question would always count as wrong: the task refuses it, or
leaves it out with `drop: [null]`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from weft.data.readers.json_text import parsed_json
from weft.data.readers.lines import text_lines
from weft.data.readers.nested import FlatRows, Nested
from weft.data.readers.problem import DataError, Problem, show
from weft.data.readers.table import Table, no_rows

COLUMNS = ("id", "title", "context", "question", "answers")
_EXPECTED = 'expected SQuAD\'s {"data": [{"title": …, "paragraphs": […]}]}; write other rows as jsonl'


def read_squad(
    path: Path, columns: Sequence[str], optional: Sequence[str] = (), *, encoding: str | None = None
) -> Table:
    """Read one row per question: id, title, context, question and answers {text: […], answer_start: […]}."""
    source = str(path)
    with text_lines(path, encoding) as text:
        whole = text.read()
    if not whole.strip():
        raise no_rows(source)
    top = Nested(_parsed(source, whole), source, None, "question")
    rows = FlatRows(source, COLUMNS, "question")
    for number, row in enumerate(_questions(top), 1):
        rows.add(number, *row)
    return rows.table(columns, optional, "the file has no questions")


def _parsed(source: str, whole: str) -> dict[str, Any]:
    parsed = parsed_json(source, whole, _EXPECTED)
    if not isinstance(parsed, dict) or "data" not in parsed:
        raise DataError(Problem(source, f"found {show(parsed, 40)}; {_EXPECTED}", value=show(parsed)))
    return parsed


def _questions(top: Nested) -> Iterator[tuple[object, ...]]:
    number = 0
    for article in top.children("data"):
        title = article.value.get("title")
        for paragraph in article.children("paragraphs"):
            context = paragraph.get("context", str)
            for unnumbered in paragraph.children("qas"):
                number += 1
                qa = Nested(unnumbered.value, top.source, number, "question", unnumbered.path)
                yield qa.get("id", str), title, context, qa.get("question", str), _answers(qa)


def _answers(qa: Nested) -> dict[str, list[Any]] | None:
    if qa.value.get("is_impossible"):
        return {"text": [], "answer_start": []}
    if "answers" not in qa.value:
        return None  # a test set
    answers = [(a.get("text", str), a.get("answer_start", int)) for a in qa.children("answers")]
    return {"text": [text for text, _ in answers], "answer_start": [start for _, start in answers]}
