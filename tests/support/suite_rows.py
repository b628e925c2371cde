"""A few rows of every task of the suites, in the hub's shape."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

Row = dict[str, Any]
TEST = {"label": -1}


def texts(count: int, *columns: str, labels: Iterable[Any] = (0, 1), start: int = 0) -> list[Row]:
    labels = list(labels)
    return [
        {
            **{column: f'{column} {i}: a "quoted" word, né ☂' for column in columns},
            "label": labels[i % len(labels)],
            "idx": start + i,
        }
        for i in range(count)
    ]


def three(*columns: str, labels: Iterable[Any] = (0, 1)) -> dict[str, list[Row]]:
    return {
        "train": texts(4, *columns, labels=labels),
        "validation": texts(3, *columns, labels=labels, start=10),
        "test": [{**row, **TEST} for row in texts(2, *columns, start=20)],
    }


def questions(start: int) -> list[Row]:
    context = "The old cat sat. The cat slept."
    return [
        {
            "id": f"q{start}",
            "title": "Cats",
            "context": context,
            "question": "Who sat?",
            "answers": {"text": ["The old cat", "cat"], "answer_start": [0, 8]},
        },
        {
            "id": f"q{start + 1}",
            "title": "Cats",
            "context": context,
            "question": "Who slept?",
            "answers": {"text": ["cat"], "answer_start": [21]},
        },
    ]


def mrqa_rows(start: int) -> list[Row]:
    """With the answers as the data set writes them, which have no place (−1) and are judged by."""
    rows = [
        {**{k: v for k, v in row.items() if k not in ("id", "title")}, "qid": row["id"]}
        for row in questions(start)
    ]
    for row in rows:
        given = row["answers"]
        row["answers"] = {
            "text": [*given["text"], "an old cat"],
            "answer_start": [*given["answer_start"], -1],
        }
    return rows


def multirc_rows(start: int, labelled: bool = True) -> list[Row]:
    return [
        {
            "paragraph": f"Paragraph {p}.",
            "question": f"Question {q}?",
            "answer": f"Answer {a}",
            "idx_paragraph": start + p,
            "idx_question": start + 2 * p + q,
            "idx_answer": start + 4 * p + 2 * q + a,
            "label": (p + q + a) % 2 if labelled else -1,
        }
        for p in range(2)
        for q in range(2)
        for a in range(2)
    ]


PASSAGE = "Ann met Bob in Rome. Bob left.\n@highlight\nAnn stayed"


def record_rows(start: int, labelled: bool = True) -> list[Row]:
    return [
        {
            "passage": PASSAGE,
            "query": f"@placeholder did {what}",
            "entities": ["Ann", "Bob", "Rome"],
            "answers": answers if labelled else [],
            "idx": {"passage": start, "query": start + number},
        }
        for number, (what, answers) in enumerate([("stay", ["Ann"]), ("meet", ["Ann", "Bob"])])
    ]


def marked_rows(start: int, label: Any) -> list[Row]:
    return [
        {
            "word": "place",
            "sentence1": "A place to be.",
            "sentence2": "No place.",
            "start1": 2,
            "end1": 7,
            "start2": 3,
            "end2": 8,
            "idx": start,
            "label": label,
        }
    ]


def wsc_rows(start: int, label: Any) -> list[Row]:
    return [
        {
            "text": "Mark told Pete, and he laughed.",
            "span1_index": 0,
            "span1_text": "Mark",
            "span2_index": 4,
            "span2_text": "he",
            "idx": start,
            "label": label,
        }
    ]


def choices(start: int, label: Any) -> list[Row]:
    return [
        {
            "premise": "It rained.",
            "choice1": "It is wet.",
            "choice2": "It is dry.",
            "question": "effect",
            "idx": start,
            "label": label,
        }
    ]


def endings(label: Any) -> list[Row]:
    return [
        {
            "video-id": "v1",
            "fold-ind": "7",
            "startphrase": "He sits. He",
            "sent1": "He sits.",
            "sent2": "He",
            "gold-source": "gold",
            **{f"ending{i}": f"does thing {i}, slowly." for i in range(4)},
            "label": label,
        }
    ]


def sentences(start: int, tags: list[list[int]] | None = None) -> list[Row]:
    return [
        {"id": str(start), "tokens": ["Ann", "likes", "New", "York"], "ner_tags": [9, 0, 7, 8]},
        {"id": str(start + 1), "tokens": ["rain", "!"], "ner_tags": [0, 0]},
    ]


def cs224n(column: str, *columns: str, labels: Iterable[Any] = (0, 1)) -> dict[str, list[Row]]:
    found = {}
    for split, rows in three(*columns, labels=labels).items():
        found[split] = [
            {
                "id": f"{split}{i}",
                **{c: r[c] for c in columns},
                **({} if split == "test" else {column: r["label"]}),
            }
            for i, r in enumerate(rows)
        ]
    return found


def splits(make: Callable[..., list[Row]], *values: Any) -> dict[str, list[Row]]:
    return dict(
        zip(("train", "validation", "test"), (make(10 * i, v) for i, v in enumerate(values)), strict=True)
    )


MNLI = three("premise", "hypothesis", labels=(0, 1, 2))
HUB: dict[str, dict[str, dict[str, list[Row]]]] = {
    "glue": {
        "cola": three("sentence"),
        "sst2": three("sentence"),
        "mrpc": three("sentence1", "sentence2"),
        "stsb": three("sentence1", "sentence2", labels=(0.0, 2.5, 5.0)),
        "qqp": three("question1", "question2"),
        "mnli": {
            "train": MNLI["train"],
            **{
                f"validation_{kind}": MNLI["validation"][:size]
                for kind, size in (("matched", 3), ("mismatched", 2))
            },
            **{f"test_{kind}": MNLI["test"] for kind in ("matched", "mismatched")},
        },
        "ax": {"test": MNLI["test"]},
        "qnli": three("question", "sentence"),
        "rte": three("sentence1", "sentence2"),
        "wnli": three("sentence1", "sentence2"),
    },
    "superglue": {
        "boolq": three("question", "passage"),
        "cb": three("premise", "hypothesis", labels=(0, 1, 2)),
        "copa": splits(choices, 0, 1, -1),
        "multirc": splits(multirc_rows, True, True, False),
        "record": splits(record_rows, True, True, False),
        "rte": three("premise", "hypothesis"),
        "wic": splits(marked_rows, 1, 0, -1),
        "wsc": splits(wsc_rows, 0, 1, -1),
    },
    "mrqa": {
        task: {"train": mrqa_rows(0), "validation": mrqa_rows(10)}
        for task in ("mrqa_squad", "newsqa", "triviaqa", "searchqa", "hotpotqa", "naturalquestions")
    },
    "squad": {"squad": {"train": questions(0), "validation": questions(10)}},
    "wnut17": {
        "wnut17": {split: sentences(10 * i) for i, split in enumerate(("train", "validation", "test"))}
    },
    "snli": {
        "snli": {
            s: three("premise", "hypothesis", labels=(0, 1, 2, -1))["train"]
            for s in ("train", "validation", "test")
        }
    },
    "scitail": {
        "scitail": {
            s: three("premise", "hypothesis", labels=("neutral", "entails"))["train"]
            for s in ("train", "validation", "test")
        }
    },
    "swag": {"swag": {"train": endings(2), "validation": endings(0), "test": endings(-1)}},
    "cs224n": {
        "sst": cs224n("sentiment", "sentence", labels=(0, 1, 2, 3, 4)),
        "quora": cs224n("is_duplicate", "sentence1", "sentence2"),
        "sts": cs224n("similarity", "sentence1", "sentence2", labels=(0.0, 2.5)),
        "cfimdb": cs224n("sentiment", "sentence"),
    },
}
