"""MultiRC's jsonl files as SuperGLUE has them: a paragraph a line, with questions and their answers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from weft.data.json_lines import parsed_lines
from weft.data.nested import Nested
from weft.data.table import Table, no_rows, wanted_columns

COLUMNS = ("paragraph", "question", "answer", "idx_paragraph", "idx_question", "idx_answer", "label")


def read_multirc(path: Path, columns: Sequence[str], optional: Sequence[str] = ()) -> Table:
    """A row an answer, with the numbers of its paragraph, question and itself; no label in a test set."""
    source = str(path)
    found: dict[str, list[object]] = {column: [] for column in COLUMNS}
    lines: list[int] = []
    for number, line in parsed_lines(path):
        entry = Nested(line, source, number, "line")
        passage = entry.child("passage")
        paragraph = (passage.get("text", str), entry.get("idx", int))
        for question in passage.children("questions"):
            asked = (question.get("question", str), question.get("idx", int))
            for answer in question.children("answers"):
                lines.append(number)
                row = (
                    *(paragraph[0], asked[0], answer.get("text", str)),
                    *(paragraph[1], asked[1], answer.get("idx", int)),
                    answer.value.get("label"),
                )
                for column, value in zip(COLUMNS, row, strict=True):
                    found[column].append(value)
    if not lines:
        raise no_rows(source)
    chosen = wanted_columns(source, COLUMNS, columns, optional)
    return Table(source, {column: found[column] for column in chosen}, np.array(lines, np.int64), "line")
