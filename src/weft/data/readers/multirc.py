"""MultiRC's jsonl files as SuperGLUE has them: a paragraph a line, with questions and their answers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from weft.data.readers.json_lines import parsed_lines
from weft.data.readers.nested import FlatRows, Nested
from weft.data.readers.table import Table

COLUMNS = ("paragraph", "question", "answer", "idx_paragraph", "idx_question", "idx_answer", "label")


def read_multirc(path: Path, columns: Sequence[str], optional: Sequence[str] = ()) -> Table:
    """A row an answer, with the numbers of its paragraph, question and itself; no label in a test set."""
    source = str(path)
    rows = FlatRows(source, COLUMNS)
    for number, line in parsed_lines(path):
        entry = Nested(line, source, number, "line")
        passage = entry.child("passage")
        paragraph = (passage.get("text", str), entry.get("idx", int))
        for question in passage.children("questions"):
            asked = (question.get("question", str), question.get("idx", int))
            for answer in question.children("answers"):
                texts = paragraph[0], asked[0], answer.get("text", str)
                places = paragraph[1], asked[1], answer.get("idx", int)
                rows.add(number, *texts, *places, answer.value.get("label"))
    return rows.table(columns, optional)
