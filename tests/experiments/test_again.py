"""Runs that are trained once more, and what is said about them."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.tiny_grid import run_here, untimed, write_grid
from weft.errors import WeftError
from weft.experiments.again import judgement, repeated, spread_of, to_repeat
from weft.experiments.call import Call
from weft.experiments.compare import TABLES, written
from weft.experiments.compared import recorded
from weft.experiments.grid import load_grid
from weft.experiments.packing import pack, unpacked
from weft.experiments.page import page
from weft.experiments.records import Record, Records
from weft.experiments.results import results_of
from weft.experiments.statistics.seeds import seed_spread
from weft.experiments.tables import notes_of, tables_of
from weft.reporting.results_page import write_results_page
from weft.utils.files import write_json

GRID = "grid.yaml"
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
    spread = spread_of(compared.plan.grid, compared.records)
    allowed = spread.largest_difference()
    for change, agrees in ((1.01 * allowed, False), (0.99 * allowed, True)):
        metrics = {
            task: {metric: value + change for metric, value in values.items()}
            for task, values in record.metrics.items()
        }
        second.write(replace(record, metrics=metrics))
        (run,) = [run for run in repeated(compared.plan, compared.records) if run.run == name]
        assert run.agrees is agrees
        assert not run.equal
        assert run.now - run.then == pytest.approx(change)
        assert (run.noise, run.allowed) == (spread.deviation, allowed)
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


def test_an_older_second_record_does_not_hide_that_a_run_failed(made, tmp_path):
    """A run whose second record lacks a new measure is trained again, and may fail."""
    grid, out, _, _ = made
    pack(recorded(load_grid(grid), out).plan, tmp_path / "all.records")
    compared = unpacked(load_grid(grid), tmp_path / "all.records", tmp_path / "there")
    (name, *_) = to_repeat(compared.plan, 1)
    for reason, shown in (("no memory\nat all", "no memory\nat all"), ("", "no record")):
        runs = repeated(compared.plan, compared.records, {name: reason})
        (run,) = [run for run in runs if run.run == name]
        assert run.failed == shown
        assert run.agrees is False
        assert run.now is None
        assert not run.equal


def test_a_note_says_how_many_runs_can_be_trained_again_if_they_are_fewer(tmp_path, warm_workers, capsys):
    text = "variants: {a: {}, b: {}, c: {start_from: a}}\n"
    grid = write_grid(tmp_path, text, steps=2)
    done = run_here(grid, tmp_path / "out", again=3)
    assert len(results_of(done).again) == 1
    assert "note: grid: again is 3, but only 1 can be trained once more: " in capsys.readouterr().err
    run_here(grid, tmp_path / "out", again=1)
    assert "once more" not in capsys.readouterr().err


def test_one_seed_gives_nothing_to_judge_by_and_the_words_say_so(tmp_path, warm_workers):
    grid = write_grid(tmp_path, "axes: {method: [full, lora]}\n", steps=2)
    done = run_here(grid, tmp_path / "out", jobs=2, again=2)
    (name, _) = to_repeat(done.plan, 2)
    second = done.plan.records.again
    record = second.read(done.plan.cells[name].identity)
    metrics = {
        task: {metric: value + 0.1 for metric, value in values.items()}
        for task, values in record.metrics.items()
    }
    second.write(replace(record, metrics=metrics, machine={}))
    results = results_of(done)
    (run,) = [run for run in results.again if run.run == name]
    assert run.agrees is None
    assert run.noise is None
    notes = notes_of(results)
    assert (
        "1 of 2 runs that were trained again agrees with its record: all their metrics are equal bit by bit"
        in notes
    )
    assert (
        "1 of 2 runs that were trained again cannot be judged: no variant has two seeds, so that nothing "
        "says how much runs of different seeds differ" in notes
    )
    assert "2·√2" not in page(results)
    table = tables_of(results)[-1]
    assert table.columns[4] == "largest difference of a task"
    (row,) = [row for row in table.rows if row[0] == name]
    assert row[5:] == ("–", f"{run.machines[0]} and –")


def run_of(**differences):
    """A repeated run as tables.json has it."""
    run = {"then": 0.5, "now": 0.51, "noise": 0.01, "allowed": 0.03, "agrees": True}
    return {**run, **differences}


def test_the_words_count_what_agrees_and_say_why_the_rest_cannot_be_judged():
    missing = run_of(now=None, agrees=None)
    assert judgement([run_of(), run_of(), run_of(agrees=False), missing]) == [
        "2 of 4 runs that were trained again agree with their records",
        "a run agrees with its record if both averages differ by at most 3.00 points, so that the difference "
        "is within the 95 % interval of a difference of two seeds; the standard deviation between seeds is "
        "1.00 points",
        "1 of 4 runs that were trained again cannot be judged: the average of one of both runs is missing",
    ]
    alone = run_of(noise=None, allowed=None, agrees=None)
    assert len(judgement([alone, alone])) == 1
    assert judgement([alone, alone])[0].startswith(
        "2 of 2 runs that were trained again cannot be judged: no "
    )
    failed = run_of(now=None, noise=None, allowed=None, agrees=False)
    assert judgement([failed]) == ["0 of 1 runs that were trained again agree with their records"]


def test_a_run_without_a_device_has_a_dash(made):
    results = results_of(made[-1])
    unknown = replace(results, again=tuple(replace(run, machines=(None, None)) for run in results.again))
    assert all(row[-1] == "–" for row in tables_of(unknown)[-1].rows)
    assert Record("0" * 64).device is None
    assert Record("0" * 64, machine={"device": None}).device is None
    assert Record("0" * 64, machine={"device": ["CPU"]}).device == "['CPU']"


def test_the_page_names_the_command_that_makes_its_section(made, tmp_path):
    grid, _, _, then = made
    results = results_of(then)
    assert f"weft compare {GRID} --out runs/grid --again 2 --pack a.records\n" in page(
        results, Call(GRID, records="a.records")
    )
    assert f"weft compare {GRID} --out runs/grid --again 5\n" in page(results, Call(GRID, again=5))
    # of several grids, each has as many
    two = [replace(results, again=results.again[:1]), results]
    assert " --again 2\n" in page(two, Call(GRID))
    assert "--again" not in page(replace(results, again=()), Call(GRID))
    folder = tmp_path / "out"
    compared = recorded(load_grid(grid), then.plan.out)
    written(compared, folder)
    write_json(folder / TABLES["json"], results.to_dict())
    write_results_page(tmp_path / "page.md", [results], Call(GRID), folder)
    assert "weft compare grid.yaml --out runs/grid --again 2" in (tmp_path / "page.html").read_text()


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


def of_score(identity, score):
    return Record(identity * 64, metrics={"task": {"accuracy": score}})


@given(st.lists(st.lists(st.floats(0, 1), min_size=1, max_size=4), min_size=1, max_size=3), st.integers(1, 3))
def test_equal_runs_under_several_names_count_once_in_the_spread_of_seeds(values, names):
    grid = SimpleNamespace(average="average")
    signs = iter("0123456789abcdef")
    records = {
        str(v): {s: of_score(next(signs), x) for s, x in enumerate(row)} for v, row in enumerate(values)
    }
    expected = seed_spread(values)
    # a further name has some of the runs of the first variant, or all
    more = {f"more {n}": dict(list(records["0"].items())[:n]) for n in range(1, names + 1)}
    for each in ({**records, **more}, {**more, **records}):
        found = spread_of(grid, each)
        assert (found is None) == (expected is None)
        if found is not None:
            assert found.df == expected.df
            assert found.deviation == pytest.approx(expected.deviation, abs=1e-12)


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
