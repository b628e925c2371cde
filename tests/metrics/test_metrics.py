"""What holds of every metric."""

from __future__ import annotations

import re

import pytest

from tests.support.paths import ROOT
from weft.errors import WeftError
from weft.metrics import ANSWER_TYPES, METRICS, fitting, is_error, score
from weft.tasks import Task
from weft.tasks.kinds import KINDS

TEXT = (ROOT / "docs" / "measures.md").read_text(encoding="utf-8").split("## The papers' averages")[0]


def table(heading: str) -> dict[str, str]:
    """The first column of a table of the page, and its second."""
    rows = TEXT.split(f"| {heading} |")[1].split("\n\n")[0].split("\n")[2:]
    cells = [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]
    return {name: row[1] for row in cells for name in re.findall(r"`(\w+)`", row[0])}


def test_every_metric_is_defined_in_the_documentation_with_what_it_compares():
    metrics = table("metric")
    assert set(metrics) == set(METRICS)
    for name, compares in metrics.items():
        assert compares.split("; ")[0] == ", ".join(METRICS[name].compares), name


def test_every_answer_type_is_defined_in_the_documentation_with_its_kinds():
    metrics = table("answer type")
    assert set(metrics) == set(ANSWER_TYPES)
    for name, kinds in metrics.items():
        assert kinds == ", ".join(kind for kind in KINDS if name in KINDS[kind].answer_types), name


@pytest.mark.parametrize("name", METRICS)
def test_nothing_to_judge_is_no_nan(name):
    assert score([name], [], []) == {name: 0.0}


def test_declarations_are_of_known_answer_types():
    for name in METRICS:
        assert set(METRICS[name].compares) <= set(ANSWER_TYPES), name
        assert METRICS[name].summary, name
    for kind in KINDS:
        assert set(KINDS[kind].answer_types) <= set(ANSWER_TYPES), kind


def test_the_usual_metrics_of_an_answer_type_compare_it():
    for name in ANSWER_TYPES:
        for metric in ANSWER_TYPES[name].metrics:
            assert name in METRICS[metric].compares, (name, metric)


@pytest.mark.parametrize(
    ("name", "error"),
    [("mse", True), ("mse_mm", True), ("exact_match", False), ("f1_mm", False), ("x", False)],
)
def test_errors_are_told_from_shares(name, error):
    assert is_error(name) is error


def test_what_fits_follows_from_declarations():
    assert fitting(("labels",), 3) == ["accuracy", "macro_f1", "matthews"]
    assert fitting(("labels",), 2) == ["accuracy", "f1", "f1a", "macro_f1", "matthews", "question_em"]
    assert fitting(("choices", "texts"), 1) == ["accuracy", "exact_match", "token_f1"]
    assert fitting(("tags",), 2) == ["token_accuracy"]


@pytest.mark.parametrize(
    ("metrics", "message"),
    [
        (("f1",), "metric 'f1' does not fit classify-3: it needs 2 labels; known: accuracy, macro_f1"),
        (
            ("mrr",),
            "metric 'mrr' does not fit classify-3: it compares rankings, and the task's answers are labels",
        ),
        (("acuracy",), "metric 'acuracy' does not exist; did you mean 'accuracy'"),
    ],
)
def test_a_metric_that_does_not_fit_is_refused_with_the_reason(metrics, message):
    with pytest.raises(WeftError, match=re.escape(message)):
        Task("t", labels=("x", "y", "z"), metrics=metrics)
