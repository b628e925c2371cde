"""Tasks that were not learned: scores beside those of the majority answer."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.outline import check_page
from tests.support.tiny_grid import run_here, write_grid
from weft.evaluation.baselines import quick_baselines
from weft.experiments.compare import written
from weft.experiments.guesses import MAJORITY, not_learned
from weft.experiments.page import page
from weft.experiments.records import Record
from weft.reporting.report import report
from weft.workflows.train import prepare_run

SCORES = st.floats(0, 1)


def record_of(scores, guesses, steps=3):
    metrics = {task: {"accuracy": score} for task, score in scores.items()}
    return Record("0" * 64, {"train": {"steps": steps}}, metrics, measures={MAJORITY: guesses})


@given(st.lists(st.tuples(SCORES, SCORES), min_size=1, max_size=4))
def test_the_mean_over_seeds_is_compared(values):
    records = [record_of({"a": score, "b": 1.0}, {"a": guess, "b": 1.0, "c": 0.0}) for score, guess in values]
    score = sum(score for score, _ in values) / len(values)
    guess = sum(guess for _, guess in values) / len(values)
    if abs(score - guess) > 1e-9:
        assert not_learned(records) == (["a"] if score < guess else [])


def test_equal_is_not_better_and_runs_without_steps_have_nothing_to_learn():
    assert not_learned([record_of({"a": 0.5}, {"a": 0.5})]) == ["a"]
    assert not_learned([record_of({"a": 0.5}, {"a": 0.5}, steps=0)]) == []
    assert not_learned([record_of({"a": 0.5}, {})]) == []
    assert not_learned([Record("0" * 64, measures={MAJORITY: "damaged"})]) == []


@pytest.mark.usefixtures("warm_workers")
def test_a_run_has_the_scores_of_the_majority_answer_and_the_pages_name_what_is_not_above(tmp_path):
    """A rate of zero learns nothing: constant answers are as good or better."""
    from weft.config.run_file import load_run

    grid = write_grid(tmp_path, "seeds: 3\nvariants: {still: {train.lr: 1.0e-12}}\n", steps=2)
    compared = run_here(grid, tmp_path / "out", jobs=2)
    run = load_run(tmp_path / "run.yaml")
    rows = prepare_run(run, tmp_path / "prepared", device="cpu").splits
    splits = [
        {task: rows[task, split] for task in ("cat", "same", "count")} for split in ("train", "validation")
    ]
    expected = quick_baselines(run.tasks, *splits)["majority"]
    for record in compared.records["still"].values():
        assert record.measures[MAJORITY] == {
            task: pytest.approx(next(iter(metrics.values()))) for task, metrics in expected.items()
        }
    results = written(compared, tmp_path / "out")
    tasks = results.facts["still"]["not_learned"]
    assert tasks == not_learned(list(compared.records["still"].values()))
    assert tasks
    listed = ", ".join(tasks)
    assert f"suggests that a task is not learned: still ({listed}).\n" in page(results)
    shown = report([tmp_path / "out"]).read_text()
    check_page(shown)
    assert f"still is not better than the most frequent answer on {listed}" in shown
