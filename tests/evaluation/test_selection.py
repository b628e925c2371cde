"""The score that selects the best weights: averages of the papers, one task, one metric of one task."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.glue_rows import write_glue
from weft.evaluation.averages import AVERAGES, average
from weft.evaluation.selection import reported_metrics, selecting_score, selection_mistake
from weft.suites import load_suite

REPORTED = {"mrpc": ["f1", "accuracy"], "stsb": ["pearson", "mse"], "glue9": ["accuracy"]}


def test_the_metrics_of_an_evaluation_include_those_of_further_sets(tmp_path):
    tasks = load_suite("glue", write_glue(tmp_path))
    reported = reported_metrics(tasks)
    assert reported["mnli"] == ["accuracy", "accuracy_mm"]
    assert reported["stsb"] == ["pearson", "spearman"]
    for name in ("pals_dev", "glue9"):
        assert selection_mistake(name, list(reported), reported) is None
    without = {name: metrics for name, metrics in reported.items() if name not in ("cola", "mnli")}
    without["mnli"] = ["accuracy"]
    assert selection_mistake("glue9", list(without), without) == (
        "'glue9' is the average of 9 values; this run does not have mnli accuracy_mm, cola matthews: "
        "add them, or choose by the mean score of the tasks: best='average'"
    )
    assert selection_mistake("glue9", list(without)) is None  # the metrics are not known


@pytest.mark.parametrize("best", ["average", "per_task", "mrpc", "mrpc.accuracy", "stsb.mse", "glue9"])
def test_what_can_select(best):
    assert selection_mistake(best, list(REPORTED), REPORTED) is None


@pytest.mark.parametrize(
    ("best", "message"),
    [
        ("mprc", "'mprc'; did you mean 'mrpc'? known: average, ca_mtl24, glue9, mrpc"),
        ("mrpc.acuracy", "task 'mrpc' has no metric 'acuracy'; did you mean 'accuracy'? known: accuracy, f1"),
        ("rte.accuracy", "'rte.accuracy'; known: average"),
        ("pals_de", "did you mean 'pals_dev'"),
        ("superglue", "'superglue' is the average of 8 values; this run does not have boolq accuracy"),
    ],
)
def test_what_cannot(best, message):
    assert message in selection_mistake(best, list(REPORTED), REPORTED)


@given(st.sampled_from(sorted(AVERAGES)), st.data())
def test_an_average_selects_by_its_value(name, data):
    tasks = {}
    for part in AVERAGES[name]:
        value = data.draw(st.floats(-1, 1))
        tasks.setdefault(f"{part.suite}_{part.task}", {}).update(dict.fromkeys(part.metrics, value))
    scores = {"tasks": tasks, "average": 0.25, "rows": {}, "of": {}}
    assert selecting_score(name, scores) == average(name, tasks).value


def test_a_task_a_metric_and_the_average():
    tasks = {"glue9": {"accuracy": 0.5, "f1": 0.75}, "b": {"pearson": 0.125, "mse": 0.375}}
    scores = {"tasks": tasks, "average": 0.25, "rows": {}, "of": {}}
    expected = {
        "average": 0.25,
        "per_task": 0.25,
        "b": 0.125,
        "b.pearson": 0.125,
        "glue9.f1": 0.75,
        "glue9": 0.5,  # a task's name comes first
        "b.mse": 1 - 0.375,  # lower is better
    }
    assert {best: selecting_score(best, scores) for best in expected} == expected
