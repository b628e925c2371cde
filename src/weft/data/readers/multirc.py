"""MultiRC's jsonl files from SuperGLUE: one paragraph per line, with questions and their answers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from weft.data.readers.json_lines import parsed_lines
from weft.data.readers.nested import FlatRows, Nested
from weft.data.readers.table import Table

COLUMNS = ("paragraph", "question", "answer", "idx_paragraph", "idx_question", "idx_answer", "label")


def read_multirc(
    path: Path, columns: Sequence[str], optional: Sequence[str] = (), *, encoding: str | None = None
) -> Table:
    """Read one row per answer, with the indices of paragraph, question and answer; no label in a test set."""
    source = str(path)
    rows = FlatRows(source, COLUMNS)
    for number, line in parsed_lines(path, encoding):
        entry = Nested(line, source, number, "line")
        passage = entry.child("passage")
        paragraph = (passage.get("text", str), entry.get("idx", int))
        for question in passage.children("questions"):
            question_and_index = (question.get("question", str), question.get("idx", int))
            for answer in question.children("answers"):
                texts = paragraph[0], question_and_index[0], answer.get("text", str)
                indices = paragraph[1], question_and_index[1], answer.get("idx", int)
                rows.add(number, *texts, *indices, answer.value.get("label"))
    return rows.table(columns, optional)
