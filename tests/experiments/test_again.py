"""Runs that are trained once more, and what is said about them."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.tiny_grid import run_here, untimed, write_grid
from weft.errors import WeftError
from weft.experiments.again import repeated, seed_deviation, to_repeat
from weft.experiments.compared import recorded
from weft.experiments.grid import load_grid
from weft.experiments.packing import pack, unpacked
from weft.experiments.page import page
from weft.experiments.records import Record, Records
from weft.experiments.results import results_of
from weft.experiments.tables import notes_of, tables_of

TEXT = "seeds: 2\naxes: {method: [full, lora]}\nbaseline: full\n"
TUNED = "seeds: 2\nvariants: {a: {}}\ntune: {over: {train.lr: [1.0e-9, 1.0e-2]}, seeds: 1}\n"


@pytest.fixture(scope="module", params=[TEXT, TUNED], ids=["plain", "tuned"])
def made(request, tmp_path_factory, warm_workers):
    folder = tmp_path_factory.mktemp("again")
    grid = write_grid(folder, request.param, steps=3)
    first = run_here(grid, folder / "out", jobs=2)
    return grid, folder / "out", first, run_here(grid, folder / "out", jobs=2, again=2)


def test_two_runs_are_trained_from_nothing_and_equal_the_first_ones(made):
    _, out, first, then = made
    assert first.ran > 2
    assert then.ran == 2
    assert then.steps == 2 * 3
    assert not then.failed
    names = to_repeat(first.plan, 2)
    assert len(names) == 2
    for name in names:
        planned = first.plan.cells[name]
        second = Records(out).again.read(planned.identity)
        assert untimed(second) == untimed(planned.record)
    results = results_of(then)
    assert {run.run for run in results.again} == set(names)
    assert all(run.equal and run.agrees for run in results.again)
    assert results.missing == 0


def test_a_second_call_trains_no_run_a_third_time(made):
    grid, out, _, _ = made
    assert run_here(grid, out, again=2).ran == 0


def test_the_packed_file_and_the_page_have_them(made, tmp_path):
    grid, _, _, then = made
    count = pack(then.plan, tmp_path / "all.records")
    assert count == len({planned.identity for planned in then.plan.cells.values()})
    there = unpacked(load_grid(grid), tmp_path / "all.records", tmp_path / "there")
    results = results_of(there)
    assert results.again == results_of(then).again
    text = page(results)
    assert text.count("0, bit by bit") == 2
    assert "## Runs that were trained again" in text
    assert Records(tmp_path / "there").unpack(tmp_path / "all.records") == (0, count)


def test_a_run_whose_scores_differ_is_judged_by_the_spread_of_seeds(made, tmp_path):
    grid, out, _, _ = made
    pack(recorded(load_grid(grid), out).plan, tmp_path / "all.records")
    compared = unpacked(load_grid(grid), tmp_path / "all.records", tmp_path / "there")
    (name, *_) = to_repeat(compared.plan, 1)
    second = compared.plan.records.again
    record = second.read(compared.plan.cells[name].identity)
    noise = seed_deviation(compared.plan.grid, compared.records)
    for change, agrees in ((1.0, False), (noise / 10, True)):
        metrics = {
            task: {metric: value + change for metric, value in values.items()}
            for task, values in record.metrics.items()
        }
        second.write(replace(record, metrics=metrics))
        (run,) = [run for run in repeated(compared.plan, compared.records) if run.run == name]
        assert run.agrees is agrees
        assert not run.equal
        assert run.now - run.then == pytest.approx(change)
        table = tables_of(results_of(compared))[-1]
        (row,) = [row for row in table.rows if row[0] == name]
        assert row[5] == ("yes" if agrees else "no")
        assert row[3] == f"{100 * change:+.2f}"


def test_equal_runs_under_several_names_are_trained_again_once(tmp_path, warm_workers):
    text = "seeds: 2\nvariants: {a: {}, b: {}, c: {method: lora}}\n"
    grid = write_grid(tmp_path, text, steps=3)
    done = run_here(grid, tmp_path / "out", jobs=2, again=9)
    assert done.ran == 4 + 4
    again = results_of(done).again
    assert len(again) == 4
    assert all(run.equal for run in again)


def test_a_run_that_fails_when_it_is_trained_again_is_on_the_page(tmp_path, warm_workers):
    grid = write_grid(tmp_path, TEXT, steps=3)
    run_here(grid, tmp_path / "out", jobs=2)
    (tmp_path / "out" / "again").mkdir()
    (tmp_path / "out" / "again" / "runs").write_text("in the way")
    done = run_here(grid, tmp_path / "out", again=1)
    assert not done.failed
    assert len(done.not_repeated) == 1
    results = results_of(done)
    (run,) = results.again
    assert run.failed
    assert run.agrees is False
    assert results.missing == 0
    assert "| failed | – | – | no |" in page(results)
    assert any(note.startswith(f"{run.run} failed when it was trained again: ") for note in notes_of(results))


def test_if_the_time_is_over_the_results_of_the_grid_are_there_all_the_same(tmp_path, warm_workers, capsys):
    grid = write_grid(tmp_path, TEXT, steps=3)
    run_here(grid, tmp_path / "out", jobs=2)
    done = run_here(grid, tmp_path / "out", again=1, minutes=1e-9)
    assert done.ran == 0
    assert results_of(done).missing == 0
    assert "0 of 1 runs are done once more" in capsys.readouterr().err


@pytest.mark.parametrize("metrics", [{}, {"cat": {}}])
def test_a_second_record_without_metrics_does_not_agree(made, tmp_path, metrics):
    grid, out, _, _ = made
    pack(recorded(load_grid(grid), out).plan, tmp_path / "all.records")
    compared = unpacked(load_grid(grid), tmp_path / "all.records", tmp_path / "there")
    (name, *_) = to_repeat(compared.plan, 1)
    second = compared.plan.records.again
    second.write(replace(second.read(compared.plan.cells[name].identity), metrics=metrics))
    (run,) = [run for run in repeated(compared.plan, compared.records) if run.run == name]
    assert run.now is None
    assert not run.equal
    assert run.agrees is None
    assert page(results_of(compared))


def test_a_damaged_second_record_is_not_packed(made, tmp_path):
    grid, out, _, _ = made
    pack(recorded(load_grid(grid), out).plan, tmp_path / "all.records")
    compared = unpacked(load_grid(grid), tmp_path / "all.records", tmp_path / "there")
    (name, *_) = to_repeat(compared.plan, 1)
    path = compared.plan.records.again.path(compared.plan.cells[name].identity)
    path.write_bytes(b"damaged")
    with pytest.raises(WeftError, match=f"{path.name} is damaged"):
        pack(compared.plan, tmp_path / "new.records")


def test_a_negative_number_is_refused(tmp_path):
    grid = write_grid(tmp_path, TEXT, steps=3)
    with pytest.raises(WeftError, match="again must be at least 0; found -1"):
        run_here(grid, tmp_path / "out", again=-1)


@given(st.lists(st.lists(st.floats(0, 1), min_size=1, max_size=4), min_size=1, max_size=4))
def test_the_spread_of_seeds_is_pooled_over_variants(values):
    grid = SimpleNamespace(average="average")
    records = {
        str(v): {s: Record("0" * 64, metrics={"task": {"accuracy": x}}) for s, x in enumerate(row)}
        for v, row in enumerate(values)
    }
    free = sum(len(row) - 1 for row in values)
    found = seed_deviation(grid, records)
    if not free:
        assert found is None
        return
    expected = np.sqrt(sum(len(row) * np.var(row) for row in values) / free)
    assert found == pytest.approx(expected, abs=1e-9)


@given(
    variants=st.lists(st.integers(1, 4), min_size=1, max_size=5), count=st.integers(1, 8), trial=st.booleans()
)
def test_runs_of_different_variants_are_chosen_first(variants, count, trial):
    cells = {}
    for number, seeds in enumerate(variants):
        for seed in range(seeds):
            name = f"{number}-{seed}"
            cell = SimpleNamespace(name=name, variant=str(number), trial=False, needs=())
            cells[name] = SimpleNamespace(cell=cell, identity=name, record=Record("0" * 64))
    if trial:
        cell = SimpleNamespace(name="trial", variant="0", trial=True, needs=())
        cells["trial"] = SimpleNamespace(cell=cell, identity="trial", record=Record("0" * 64))
    chosen = to_repeat(SimpleNamespace(cells=cells), count)
    assert chosen == to_repeat(SimpleNamespace(cells=dict(reversed(cells.items()))), count)
    assert "trial" not in chosen
    assert len(set(chosen)) == len(chosen) == min(count, sum(variants))
    assert len({cells[name].cell.variant for name in chosen}) == min(count, len(variants))
