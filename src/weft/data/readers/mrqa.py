"""MRQA's jsonl.gz files (Fisch et al., 2019): a header line, then one context per line with its questions."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from weft.data.readers.json_lines import parsed_lines
from weft.data.readers.nested import FlatRows, Nested
from weft.data.readers.problem import DataError, Problem, show
from weft.data.readers.table import Table

COLUMNS = ("qid", "question", "context", "answers")


def read_mrqa(
    path: Path, columns: Sequence[str], optional: Sequence[str] = (), *, encoding: str | None = None
) -> Table:
    """Read one row per question: qid, question, context and answers {text: […], answer_start: […]}.

    Detected answers come first, one per occurrence: `char_spans` are the [first, last] characters, inclusive;
    the text is that of the context. The answers as written in the original data set follow with start −1:
    MRQA evaluates with these.
    """
    source = str(path)
    rows = FlatRows(source, COLUMNS)
    headed = False
    for number, line in parsed_lines(path, encoding):
        if not headed:
            headed = True
            if not isinstance(line.get("header"), dict):
                message = (
                    f"found {show(line, 40)}; expected MRQA's header, such as "
                    '{"header": {"dataset": "SQuAD", "split": "train"}}'
                )
                raise DataError(Problem(source, message, number, "header", show(line), "line"))
            continue
        entry = Nested(line, source, number, "line")
        context = entry.get("context", str)
        for qa in entry.children("qas"):
            rows.add(number, qa.get("qid", str), qa.get("question", str), context, _answers(qa, context))
    return rows.table(columns, optional, "the file has no questions" if headed else "the file is empty")


def _answers(qa: Nested, context: str) -> dict[str, list[Any]] | None:
    if "detected_answers" not in qa.value:
        return None  # a test set
    positions: dict[tuple[str, int], None] = {}
    for answer in qa.children("detected_answers"):
        answer.get("text", str)
        for span in answer.get("char_spans", list):
            first, last = span if isinstance(span, list) and len(span) == 2 else (None, None)
            if type(first) is not int or type(last) is not int or not 0 <= first <= last < len(context):
                expected = f"[first, last] characters of the context, which has {len(context)}"
                raise answer.wrong("char_spans", span, True, expected)
            positions[context[first : last + 1], first] = None
    for text in qa.get("answers", list) if "answers" in qa.value else []:
        if not isinstance(text, str):
            raise qa.wrong("answers", text, True, "a list of texts")
        if text.strip():
            positions[text, -1] = None
    return {"text": [text for text, _ in positions], "answer_start": [start for _, start in positions]}
