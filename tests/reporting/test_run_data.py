"""Reading a run's folder: whole runs, runs that still train, and damaged files."""

from __future__ import annotations

import json

import pytest

from tests.support.report_runs import TASKS, evaluation, write_run_folder
from weft.errors import WeftError
from weft.reporting.run_data import read_run


def test_a_whole_run(tmp_path):
    run = read_run(write_run_folder(tmp_path / "first"))
    assert (run.name, run.tasks) == ("first", list(TASKS))
    assert [e.step for e in run.evaluations] == [50, 100, 150, 200]
    assert run.kept_step("rte") == 150
    assert run.evaluations[0].score("rte") == pytest.approx(0.65)
    assert run.train["evaluate_rows"] == 100
    assert run.skipped == 0


def test_a_run_that_still_trains_has_half_a_line(tmp_path):
    folder = write_run_folder(tmp_path, ended=False)
    with (folder / "log.jsonl").open("a") as file:
        file.write('{"event": "evaluation", "st')
    run = read_run(folder)
    assert (run.skipped, len(run.evaluations), dict(run.metrics)) == (0, 4, {})
    assert run.kept_step("rte") is None


def test_lines_that_no_run_writes_are_counted(tmp_path):
    bad = ["not JSON", "[1]", '{"event": 3}', '{"event": "evaluation", "step": "x", "tasks": {}}']
    bad += [
        '{"event": "evaluation", "step": 1, "tasks": {"a": 3}}',
        '{"event": "chosen", "step": 1, "task": ["x"]}',
    ]
    folder = write_run_folder(tmp_path)
    with (folder / "log.jsonl").open("a") as file:
        file.write("\n".join(bad) + "\n")
    run = read_run(folder)
    assert run.skipped == len(bad)
    assert len(run.evaluations) == 4


def test_an_evaluation_that_was_repeated_counts_once(tmp_path):
    """A resumed run evaluates a step again; the later line counts."""
    again = evaluation(50, TASKS, average=0.1)
    run = read_run(write_run_folder(tmp_path, lines=[evaluation(50, TASKS), evaluation(100, TASKS), again]))
    assert [e.step for e in run.evaluations] == [50, 100]
    assert run.evaluations[0].facts["average"] == 0.1


def test_numbers_that_were_not_finite_are_null(tmp_path):
    line = evaluation(50, TASKS)
    line["tasks"]["cola"] = {"accuracy": None}
    run = read_run(write_run_folder(tmp_path, lines=[line]))
    score = run.evaluations[0].score("cola")
    assert score != score


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("run.yaml", "a: [", "line 1"),
        ("run.yaml", "- 1", "expected the sections of a run file"),
        ("metrics.json", "{", r"is not JSON.*move it away, .* mv .*metrics\.json"),
        ("metrics.json", "[]", "expected an object"),
    ],
)
def test_damaged_files_are_named(tmp_path, file, content, message):
    folder = write_run_folder(tmp_path)
    (folder / file).write_text(content)
    with pytest.raises(WeftError, match=message) as wrong:
        read_run(folder)
    assert file in str(wrong.value)


def test_a_folder_without_a_run(tmp_path):
    with pytest.raises(WeftError, match=r"holds no run: run\.yaml is missing"):
        read_run(tmp_path)


def test_the_step_that_was_kept_may_differ_by_task(tmp_path):
    folder = write_run_folder(tmp_path)
    facts = json.loads((folder / "metrics.json").read_text())
    (folder / "metrics.json").write_text(json.dumps({**facts, "step": {"cola": 50, "rte": 100}}))
    run = read_run(folder)
    assert [run.kept_step(task) for task in TASKS] == [50, 100, None]
