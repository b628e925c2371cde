"""Tasks whose examples are cut into windows."""

from __future__ import annotations

from weft.tasks import Task

WORDS = ("the", "cat's", "hat,", "antidisestablishmentarianism", "Zürich", "雨が降る", "🙂", "x", "1987", "—")


def span_task(rows, stride):
    return Task("s", "span", texts=("q", "c"), label="answers", stride=stride, files={"train": rows})


def span_rows(pairs):
    return [
        {"q": q, "c": c, "answers": {"text": [c.split()[0]], "answer_start": [c.index(c.split()[0])]}}
        for q, c in pairs
    ]


def tag_task(sentences, stride):
    rows = [{"words": list(words), "tags": ["O"] * len(words)} for words in sentences]
    return Task(
        "t", "tag", labels=("O", "B-x"), texts=("words",), label="tags", stride=stride, files={"train": rows}
    )
