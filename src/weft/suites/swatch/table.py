"""The settings of the six swatch tasks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from weft.suites.swatch import acceptability, entailment, paraphrase, question, sentiment

SPLITS = ("train", "validation", "test")


@dataclass(frozen=True)
class SwatchTask:
    """The settings of one swatch task. All of its rows are synthetic.

    Args:
        kind: `classify` or `regress`.
        texts: the text columns, one or two.
        label: the label column.
        labels: the label names in the order of their ids; empty for `regress`.
        metrics: the names of its metrics, the main one first.
        rows: the number of rows of each split.
        about: the task's question in one line.
        range: the range of the labels of `regress`.
    """

    kind: str
    texts: tuple[str, ...]
    label: str
    labels: tuple[str, ...]
    metrics: tuple[str, ...]
    rows: Mapping[str, int]
    about: str
    range: tuple[float, float] | None = None


def _rows(train: int, validation: int, test: int) -> Mapping[str, int]:
    return MappingProxyType(dict(zip(SPLITS, (train, validation, test), strict=True)))


_PAIR = ("text_a", "text_b")

SWATCH: Mapping[str, SwatchTask] = MappingProxyType(
    {
        "sentiment": SwatchTask(
            kind="classify",
            texts=("text",),
            label="label",
            labels=sentiment.LABELS,
            metrics=("accuracy",),
            rows=_rows(1000, 400, 400),
            about="Synthetic: is the verdict on the topic negative or positive?",
        ),
        "question": SwatchTask(
            kind="classify",
            texts=("text",),
            label="label",
            labels=question.LABELS,
            metrics=("accuracy",),
            rows=_rows(600, 400, 400),
            about="Synthetic: does the question ask for a person, place, time, number, reason or thing?",
        ),
        "paraphrase": SwatchTask(
            kind="classify",
            texts=_PAIR,
            label="label",
            labels=paraphrase.LABELS,
            metrics=("f1", "accuracy"),
            rows=_rows(1600, 400, 400),
            about="Synthetic: do the two sentences say the same?",
        ),
        "entailment": SwatchTask(
            kind="classify",
            texts=_PAIR,
            label="label",
            labels=entailment.LABELS,
            metrics=("accuracy",),
            rows=_rows(2000, 400, 400),
            about="Synthetic: does the first sentence entail the second, contradict it, or neither?",
        ),
        "similarity": SwatchTask(
            kind="regress",
            range=(0, 5),
            texts=_PAIR,
            label="score",
            labels=(),
            metrics=("pearson", "spearman"),
            rows=_rows(1200, 300, 300),
            about="Synthetic: how much of their meaning do the two sentences share, from 0 to 5?",
        ),
        "acceptability": SwatchTask(
            kind="classify",
            texts=("text",),
            label="label",
            labels=acceptability.LABELS,
            metrics=("matthews",),
            rows=_rows(1800, 400, 400),
            about="Synthetic: is the sentence grammatical English?",
        ),
    }
)
