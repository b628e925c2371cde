"""ReCoRD's jsonl files from SuperGLUE: one passage per line, with its entities and queries."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from weft.data.readers.json_lines import parsed_lines
from weft.data.readers.nested import FlatRows, Nested
from weft.data.readers.table import Table

COLUMNS = ("passage", "query", "entities", "answers", "label", "idx_passage", "idx_query")


def read_record(
    path: Path, columns: Sequence[str], optional: Sequence[str] = (), *, encoding: str | None = None
) -> Table:
    """Read one row per query.

    `entities` are the distinct texts marked in the passage, in the order of their first occurrence; the `end`
    of an entity in the file is its last character. `answers` are the right texts, `label` their indices among
    the entities; a test set has neither.
    """
    source = str(path)
    rows = FlatRows(source, COLUMNS)
    for number, line in parsed_lines(path, encoding):
        entry = Nested(line, source, number, "line")
        passage = entry.child("passage")
        text = passage.get("text", str)
        entities = _entities(passage, text)
        for query in entry.children("qas"):
            answers = _answers(query)
            label = None if answers is None else [i for i, entity in enumerate(entities) if entity in answers]
            if label == []:
                raise query.wrong("answers", answers, True, "an answer that is one of the passage's entities")
            indices = entry.get("idx", int), query.get("idx", int)
            rows.add(number, text, query.get("query", str), entities, answers, label, *indices)
    return rows.table(columns, optional)


def _entities(passage: Nested, text: str) -> list[str]:
    spans = []
    for entity in passage.children("entities"):
        start, end = entity.get("start", int), entity.get("end", int)
        if not 0 <= start <= end < len(text):
            expected = f"a position in the passage of {len(text)} characters, not before start {start}"
            raise entity.wrong("end", end, True, expected)
        spans.append((start, end))
    return list(dict.fromkeys(text[start : end + 1] for start, end in sorted(spans)))


def _answers(query: Nested) -> list[str] | None:
    if "answers" not in query.value:
        return None
    texts = dict.fromkeys(answer.get("text", str) for answer in query.children("answers"))
    return list(texts) or None
