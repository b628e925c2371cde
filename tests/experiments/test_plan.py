"""The plan of a grid: which finished runs serve it, and which have to be made again."""

from __future__ import annotations

import io
from contextlib import redirect_stdout
from dataclasses import replace

import pytest

from tests.support.tiny_grid import run_here, write_grid
from weft.errors import WeftError
from weft.experiments.compared import recorded
from weft.experiments.grid import load_grid
from weft.experiments.measure_tables import measure_tables
from weft.experiments.measures import FAILED, MEASURED, MEASURES
from weft.experiments.plan import Plan
from weft.experiments.results import results_of
from weft.experiments.tables import notes_of
from weft.experiments.worker import Line, run_job

pytestmark = pytest.mark.usefixtures("warm_workers")


def test_a_measured_run_serves_grids_that_measure_less(tmp_path):
    """Measures do not change which run it is; a record without a measure is made again, with all of them."""
    out = tmp_path / "out"
    grid = write_grid(tmp_path, "measures: [data_used]\n", steps=2)
    assert run_here(grid, out).ran == 1
    assert run_here(write_grid(tmp_path, "", steps=2), out).ran == 0
    again = run_here(write_grid(tmp_path, "measures: [storage]\n", steps=2), out)
    assert again.ran == 1
    (record,) = again.records["run"].values()
    assert {"data_used", "incremental", "bundled"} <= set(record.measures)
    assert run_here(grid, out).ran == 0


def test_what_costs_nothing_is_measured_in_every_run(tmp_path):
    grid = write_grid(tmp_path, "", steps=9, log_every=3)
    first = run_here(grid, tmp_path / "out")
    (record,) = first.records["run"].values()
    assert record.measures[MEASURED] == ["composition", "data_used", "examples_per_second", "speed"]
    assert 0 < record.measures["data_used"] <= 100
    assert sum(record.measures["composition"].values()) == pytest.approx(100)
    assert record.measures["speed"] > 0
    later = "measures: [data_used, composition, speed, examples_per_second, sparsity]\n"
    again = run_here(write_grid(tmp_path, later, steps=9, log_every=3), tmp_path / "out")
    assert again.ran == 0
    # pages show what their grid lists
    titles = [table.title for table in measure_tables(results_of(first, resamples=50))]
    assert titles == []
    shown = measure_tables(results_of(again, resamples=50))
    assert [table.columns for table in shown] == [
        ("variant", "data used", "speed", "examples per second"),
        ("variant", "cat", "same", "count"),
    ]


def test_a_measure_that_fails_leaves_a_record_and_a_note(tmp_path, monkeypatch, token_cache):
    def broken(folder):
        raise MemoryError("too many tasks")

    monkeypatch.setitem(MEASURES, "storage", broken)
    plan = Plan(load_grid(write_grid(tmp_path, "measures: [storage]\n", steps=2)), tmp_path / "out")
    (planned,) = plan.cells.values()
    job = plan.job(planned, "cpu", keep=False)
    lines = io.StringIO()
    with redirect_stdout(lines):
        assert run_job(job, Line(io.StringIO()))["done"] == planned.identity
    assert "measure storage could not be taken: MemoryError: too many tasks" in lines.getvalue()
    record = plan.records.read(planned.identity)
    assert list(record.metrics) == ["cat", "same", "count"]
    assert record.measures[FAILED] == {"storage": "MemoryError: too many tasks"}
    assert record.measures[MEASURED] == ["composition", "data_used", "examples_per_second", "speed"]
    # it would fail again after another training: the grid has its record, and says what is missing
    for measures in (("storage",), ()):
        compared = recorded(replace(plan.grid, measures=measures), tmp_path / "out")
        assert compared.records["run"][1] == record
        note = "storage could not be measured of 1 run (MemoryError: too many tasks); to measure it again"
        shown = [text for text in notes_of(results_of(compared, resamples=50)) if text.startswith(note)]
        assert len(shown) == len(measures)


def test_a_chosen_run_is_not_trained_again(tmp_path):
    text = "seeds: 3\ntune: {over: {train.lr: [1.0e-4, 1.0e-3]}}\nmeasures: [data_used]\n"
    compared = run_here(write_grid(tmp_path, text, steps=2), tmp_path / "out", jobs=2)
    assert compared.ran == 4  # two rates, and two more seeds of the better one
    assert len(compared.records["run"]) == 3


def test_a_run_of_a_grid_without_tune_can_be_chosen_by_its_validation_rows(tmp_path):
    files = "train: cat.train.jsonl, validation: cat.validation.jsonl"
    tasks = f"{{cat: {{labels: ['no', 'yes'], {files}, halves: true}}}}"
    plain = f"report: test\nvariants: {{cat: {{tasks: {tasks}, train.lr: 1.0e-3}}}}\n"
    run_here(write_grid(tmp_path, plain, steps=2), tmp_path / "out")
    tuned = f"tune: {{over: {{train.lr: [1.0e-4, 1.0e-3]}}}}\nvariants: {{cat: {{tasks: {tasks}}}}}\n"
    compared = run_here(write_grid(tmp_path, tuned, steps=2), tmp_path / "out")
    assert compared.ran == 1
    trials = [planned.record for planned in compared.plan.cells.values() if planned.cell.trial]
    assert all(record is not None and record.chosen_by is not None for record in trials)


def test_an_average_that_no_run_has_is_found_before_training(tmp_path):
    with pytest.raises(
        WeftError, match="'coutn' is neither an average nor a task of the grid; did you mean"
    ) as e:
        run_here(write_grid(tmp_path, "average: coutn\n", steps=2), tmp_path / "out")
    assert "'count'" in str(e.value)
    assert not (tmp_path / "out" / "records").exists()
    added = "{labels: ['no', 'yes'], train: a.jsonl, validation: a.jsonl}"
    (tmp_path / "a.jsonl").write_text(
        '{"text": "the cat", "label": "no"}\n{"text": "a dog", "label": "yes"}\n'
    )
    grown = (
        f"variants: {{run: {{}}, grown: {{grow: {{from: run, tasks: {{new: {added}}}}}}}}}\naverage: new\n"
    )
    from weft.experiments.grid import load_grid
    from weft.experiments.plan import Plan

    assert len(Plan(load_grid(write_grid(tmp_path, grown, steps=2)), tmp_path / "out").cells) == 2
