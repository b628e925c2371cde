"""The sections of a run's page: what they show, and what they say about what was not logged."""

from __future__ import annotations

import json
import math

import pytest

from tests.support.outline import Outline
from tests.support.report_runs import TASKS, conflict, error_report, evaluation, events, write_run_folder
from weft.reporting.run import SECTIONS, run_sections
from weft.reporting.run.conflict import mean_cosines
from weft.reporting.run.sampling import composition_of
from weft.reporting.run_data import read_run


def sections(folder):
    return {section.key: section for section in run_sections(read_run(folder))}


def texts(section):
    return " ".join(text for _, text in Outline(section.body).texts)


def pictures(section):
    return [a for a in Outline(section.body).named("svg") if a.get("role") == "img"]


def test_a_run_that_logged_everything_has_every_picture(tmp_path):
    found = sections(write_run_folder(tmp_path / "r"))
    assert list(found) == [key for key, _, _ in SECTIONS]
    assert len(pictures(found["curves"])) == 4  # the average and three tasks
    for key in ("losses", "sampling", "entropy"):
        assert len(pictures(found[key])) == 1
    assert len(pictures(found["conflict"])) == 2
    assert "a machine" in texts(found["environment"])
    assert "added for each of the 3 tasks" in texts(found["parameters"])
    assert "rank: 8" in texts(found["run-file"])


@pytest.mark.parametrize(
    ("key", "names"),
    [
        ("curves", "train.evaluate_every: 100"),
        ("losses", "train.log_every"),
        ("sampling", "train.evaluate_every: 100"),
        ("entropy", "train.measure_uncertainty: 100"),
        ("conflict", "train.conflict: mean"),
        ("similarity", "weft show similarity"),
        ("errors", "--report"),
        ("parameters", "weft show params"),
        ("environment", "does not name the machine"),
    ],
)
def test_what_was_not_logged_is_one_line_that_names_the_key(tmp_path, key, names):
    start = {"event": "start", "tasks": list(TASKS)}
    found = sections(write_run_folder(tmp_path, lines=[start], ended=False))
    assert names in texts(found[key])
    assert pictures(found[key]) == []


def test_scores_stand_beside_baselines_and_the_test_split(tmp_path):
    folder = write_run_folder(tmp_path)
    scores = {task: {"accuracy": 0.111, "pearson": 0.222} for task in TASKS}
    (folder / "metrics.test.json").write_text(json.dumps({"tasks": scores}))
    shown = texts(sections(folder)["scores"])
    for text in ("majority", "30.0", "test split", "11.1", "22.2", "150", "stop"):
        assert text in shown


def test_a_run_that_has_not_ended_says_so(tmp_path):
    assert "has not ended" in texts(sections(write_run_folder(tmp_path, ended=False))["scores"])


def test_composition_of_a_log_counts_examples(tmp_path):
    run = read_run(
        write_run_folder(tmp_path, lines=[events(TASKS)[0], evaluation(50, TASKS), evaluation(100, TASKS)])
    )
    found = composition_of(run)
    assert (found.starts, found.stops, found.chosen) == ((0, 50), (50, 100), False)
    assert found.shares[0] == pytest.approx((50 / 180, 60 / 180, 70 / 180))
    assert sum(found.mean()) == pytest.approx(1)


def test_composition_of_choices_is_finer_than_evaluations(tmp_path):
    """MT-Uncertainty logs the tasks of every step, by number."""
    chosen = [{"event": "chosen", "step": n, "task": [n // 10 % 3] * 3 + [0]} for n in range(300)]
    lines = [events(TASKS)[0], *chosen, evaluation(300, TASKS)]
    found = composition_of(read_run(write_run_folder(tmp_path, lines=lines)))
    assert found.chosen
    assert len(found.shares) == 60
    assert found.shares[0] == (1.0, 0.0, 0.0)
    assert found.shares[2] == pytest.approx((0.25, 0.75, 0.0))
    assert found.mean() == pytest.approx([0.25 + 0.75 / 3, 0.25, 0.25])


def test_cosines_are_means_weighted_by_steps():
    windows = [conflict(("a", "b"), 0.5, steps=10), conflict(("a", "b"), -0.1, steps=30)]
    matrix = mean_cosines(("a", "b", "c"), windows)
    assert matrix[0][1] == matrix[1][0] == pytest.approx(0.05)
    assert math.isnan(matrix[0][2])
    assert math.isnan(matrix[0][0])


def test_a_pair_whose_names_hold_the_separator():
    """`a|b` and `c` is not `a` and `b|c`."""
    tasks = ("a|b", "c", "a", "b|c")
    matrix = mean_cosines(tasks, [{"steps": 1, "cosine": {"a|b|c": 0.5}}])
    assert matrix[0][1] == 0.5
    assert matrix[2][3] == 0.5  # the log cannot tell them apart either


def test_similarities_are_read_from_files(tmp_path):
    folder = write_run_folder(tmp_path)
    matrix = [[1.0, 0.5, None], [0.5, 1.0, -0.25], [None, -0.25, 1.0]]
    (folder / "similarity.json").write_text(
        json.dumps({"order": list(TASKS), "average": {"weight": matrix, "bias": None}, "by_kind": {}})
    )
    (folder / "covariance.json").write_text(json.dumps({"tasks": list(TASKS), "covsim": matrix}))
    section = sections(folder)["similarity"]
    assert len(pictures(section)) == 2
    assert "−0.25" in texts(section)
    assert "updates of biases" not in texts(section)


def test_errors_are_shown_as_their_file_describes_them(tmp_path):
    folder = write_run_folder(tmp_path)
    (folder / "errors.json").write_text(json.dumps(error_report(TASKS, "a wrong text", "maybe")))
    section = sections(folder)["errors"]
    shown = texts(section)
    for text in (
        "rte: 1 of 4 wrong",
        "wrong maybe",
        "50.0",
        "a wrong text",
        "line 17",
        "no, other",
        "temperature 1.500",
    ):
        assert text in shown, text
    assert "none of this" not in shown
    assert "3 more rows are not shown" in shown
    assert len(pictures(section)) == 2 * len(TASKS)  # a matrix and a calibration each


@pytest.mark.parametrize("damage", ["tables", "matrices", "calibration", "examples", "kinds", "rows"])
@pytest.mark.parametrize("value", [3, "x", [3], {"a": 1}, [{"rows": 3}], [[]]])
def test_damaged_reports_raise_nothing(tmp_path, damage, value):
    folder = write_run_folder(tmp_path)
    report = error_report(["rte"])
    report["tasks"]["rte"][damage] = value
    (folder / "errors.json").write_text(json.dumps(report))
    assert sections(folder)["errors"].body


@pytest.mark.parametrize("field", ["window", "usage", "conflict", "average", "tasks"])
@pytest.mark.parametrize(
    "value", [None, 3, "x", [], {}, {"cola": None}, {"examples": {"cola": "x"}}, {"cosine": 3}]
)
def test_damaged_fields_of_the_log_raise_nothing(tmp_path, field, value):
    lines = [events(TASKS)[0], evaluation(50, TASKS), {**evaluation(100, TASKS), field: value}]
    found = sections(write_run_folder(tmp_path, lines=lines))
    assert len(found) == len(SECTIONS)


@pytest.mark.parametrize("key", ["tasks", "step", "rows", "baselines", "stops", "average", "seconds"])
@pytest.mark.parametrize("value", [None, 3, "x", [], {"cola": "x"}, {"cola": {"accuracy": "x"}}])
def test_damaged_metrics_raise_nothing(tmp_path, key, value):
    folder = write_run_folder(tmp_path)
    facts = json.loads((folder / "metrics.json").read_text())
    (folder / "metrics.json").write_text(json.dumps({**facts, key: value}))
    assert len(sections(folder)) == len(SECTIONS)


@pytest.mark.parametrize("file", ["similarity.json", "covariance.json", "errors.json"])
def test_a_file_that_a_failed_command_left_empty_becomes_a_line(tmp_path, file):
    folder = write_run_folder(tmp_path / "r")
    (folder / file).write_text("")
    found = sections(folder)
    assert list(found) == [key for key, _, _ in SECTIONS]
    shown = texts(found["errors" if file == "errors.json" else "similarity"])
    assert f"{file} is not JSON" in shown
