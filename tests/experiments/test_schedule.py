"""What can run next: several grids in one pool, and tuned values that are chosen as soon as they can be."""

from __future__ import annotations

import random
import shutil
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.tiny_grid import results, run_here, write_grid
from weft.experiments.display import Silent
from weft.experiments.grid import load_grid
from weft.experiments.on_ray import OnRay
from weft.experiments.plan import Plan
from weft.experiments.records import Record
from weft.experiments.run_grid import Stopped, _Call, run_grids
from weft.experiments.schedule import Schedule
from weft.experiments.tuning import choices_of

TUNED = """
seeds: 3
tune: {over: {train.lr: [1.0e-4, 1.0e-3]}}
variants: {a: {}, b: {method: lora}}
"""


def grid_of(folder, text, name="grid", **train):
    return load_grid(write_grid(folder, text, **{"steps": 2, **train}).rename(folder / f"{name}.yaml"))


def run_all(grids, out, **settings):
    quiet: Any = lambda cells, done: Silent()  # noqa: E731
    return run_grids(grids, out, device="cpu", display=quiet, **settings)


def end(schedule, name, score=0.5, plan=0):
    """Let a cell end with a score."""
    identity = schedule.plans[plan].cells[name].identity
    metrics = {"cat": {"accuracy": score}}
    schedule.plans[plan].records.write(Record(identity, metrics=metrics, chosen_by=metrics))
    schedule.ended(identity, None)


def names(schedule, running=()):
    return [job.name for job in schedule.ready(running, "cpu", False)]


def schedule_of(*grids, out):
    from weft.experiments.compared import halved

    return Schedule([Plan(halved(grid), out) for grid in grids])


def test_a_variant_does_not_wait_for_the_trials_of_others(tmp_path):
    schedule = schedule_of(grid_of(tmp_path, TUNED), out=tmp_path / "out")
    trials = names(schedule)
    assert len(trials) == 4
    assert schedule.count == 4 + 2 * 2
    end(schedule, "a · train.lr=0.0001 · seed 1", 0.6)
    assert not schedule.choices[0]
    end(schedule, "a · train.lr=0.001 · seed 1", 0.7)
    assert schedule.choices[0]["a"].labels == {"train.lr": "0.001"}
    assert set(names(schedule)) == {*trials[2:], "a · seed 2", "a · seed 3"}  # seed 1 was the trial
    assert {job.raw["train"]["lr"] for job in schedule.ready((), "cpu", False) if "a · " in job.name} == {
        1e-3
    }
    assert schedule.count == 8
    assert schedule.done == 2
    for name in [*trials[2:], "a · seed 2", "a · seed 3"]:
        end(schedule, name)
    assert names(schedule) == ["b · seed 2", "b · seed 3"]
    for name in names(schedule):
        end(schedule, name)
    assert not schedule.waiting
    assert schedule.done == schedule.count == 8


def test_a_variant_whose_trials_failed_has_no_cells_and_a_failed_value_is_not_chosen(tmp_path):
    schedule = schedule_of(grid_of(tmp_path, TUNED), out=tmp_path / "out")
    for label in ("0.0001", "0.001"):
        schedule.ended(schedule.plans[0].cells[f"a · train.lr={label} · seed 1"].identity, "it diverged")
    assert set(schedule.choices[0]) == set()
    assert schedule.count == 4 + 2
    end(schedule, "b · train.lr=0.0001 · seed 1", 0.1)
    schedule.ended(schedule.plans[0].cells["b · train.lr=0.001 · seed 1"].identity, "it diverged")
    assert schedule.choices[0]["b"].labels == {"train.lr": "0.0001"}
    assert names(schedule) == ["b · seed 2", "b · seed 3"]
    assert list(schedule.failed_of(schedule.plans[0])) == [
        "a · train.lr=0.0001 · seed 1",
        "a · train.lr=0.001 · seed 1",
        "b · train.lr=0.001 · seed 1",
    ]


@pytest.fixture(scope="module")
def several(tmp_path_factory):
    """Tuned grids and one whose cells use each other; some cells are in two of them."""
    folder = tmp_path_factory.mktemp("several")
    chain = "seeds: 2\nvariants: {first: {method: lora}, second: {start_from: first}, other: {}}\n"
    return [
        grid_of(folder, TUNED, "one"),
        grid_of(folder, TUNED.replace("1.0e-3]", "1.0e-3, 1.0e-2]"), "two"),
        grid_of(folder, chain, "three"),
    ]


@given(seed=st.integers(0, 1000), at_once=st.integers(1, 5), fails=st.sampled_from([0.0, 0.2]))
def test_in_whatever_order_cells_end_each_runs_once_and_the_choices_are_those_of_all_trials(
    several, tmp_path_factory, seed, at_once, fails
):
    out = tmp_path_factory.mktemp("out")
    schedule = schedule_of(*several, out=out)
    draw, scores = random.Random(seed), random.Random(7)
    values: dict[str, float] = {}
    running: list[str] = []
    begun: list[str] = []
    while schedule.waiting:
        new = [job.identity for job in schedule.ready(running, "cpu", False)][: at_once - len(running)]
        running += new
        begun += new
        assert running
        identity = running.pop(draw.randrange(len(running)))
        entry = schedule.waiting[identity]
        assert not any(need in schedule.waiting for need in entry.needs)
        if draw.random() < fails:
            schedule.ended(identity, "it diverged")
            continue
        metrics = {"cat": {"accuracy": values.setdefault(identity, scores.random())}}
        entry.plan.records.write(Record(identity, metrics=metrics, chosen_by=metrics))
        schedule.ended(identity, None)
    assert len(set(begun)) == len(begun)
    for plan, choices in zip(schedule.plans, schedule.choices, strict=True):
        assert choices == choices_of(plan)
        done = {name for name, planned in plan.cells.items() if planned.record is not None}
        assert done | {*schedule.failed_of(plan)} == {*plan.cells}
        seeds = {planned.cell.seed for planned in plan.cells.values() if not planned.cell.trial}
        assert not choices or seeds == set(plan.grid.seeds)
    assert schedule.done + len(schedule.failed) == schedule.count
    shutil.rmtree(out)


def test_cells_that_use_a_failed_one_fail(tmp_path):
    text = "variants: {first: {}, second: {start_from: first}, third: {start_from: second}}\n"
    schedule = schedule_of(grid_of(tmp_path, text), out=tmp_path / "out")
    assert names(schedule) == ["first · seed 1"]
    schedule.ended(schedule.plans[0].cells["first · seed 1"].identity, "it diverged")
    assert not schedule.waiting
    assert schedule.failed_of(schedule.plans[0]) == {
        "first · seed 1": "it diverged",
        "second · seed 1": "it uses the run 'first · seed 1', which failed",
        "third · seed 1": "it uses the run 'second · seed 1', which failed",
    }


def test_a_cell_of_several_grids_is_one_job_that_serves_all_of_them(tmp_path):
    one = grid_of(tmp_path, "seeds: 2\nmeasures: [data_used]\n", "one")
    two = grid_of(tmp_path, "seeds: 3\nmeasures: [storage]\nvariants: {it: {}}\nkeep: true\n", "two")
    schedule = schedule_of(one, two, out=tmp_path / "out")
    jobs = {job.name: job for job in schedule.ready((), "cpu", False)}
    assert list(jobs) == ["run · seed 1", "run · seed 2", "it · seed 3"]
    assert set(jobs["run · seed 1"].measures) == {"data_used", "storage"}
    assert jobs["run · seed 1"].keep
    assert schedule.count == 3
    running = {jobs["run · seed 1"].identity}
    assert names(schedule, running) == ["run · seed 2", "it · seed 3"]
    schedule.ended(jobs["run · seed 1"].identity, "it diverged")
    assert schedule.failed_of(schedule.plans[0]) == {"run · seed 1": "it diverged"}
    assert schedule.failed_of(schedule.plans[1]) == {"it · seed 1": "it diverged"}


class Noted:
    """A pool of two processes that notes what it is offered while nothing ends."""

    def __init__(self):
        self.running, self.offered = set(), []

    def run(self, next_jobs, show):
        for _ in range(3):
            jobs = next_jobs()
            self.offered.append([job.name for job in jobs])
            self.running |= {job.identity for job in jobs}
        return iter(())

    def close(self):
        pass


@pytest.mark.parametrize(("ray", "offered"), [(False, [2, 1, 0]), (True, [3, 0, 0])])
def test_cells_of_the_first_grid_are_begun_first(tmp_path, ray, offered):
    """A process would else prefer what it has compiled, of whatever grid. Ray gets everything at once."""
    one = grid_of(tmp_path, "seeds: 2\n", "one")
    two = grid_of(tmp_path, "variants: {two: {method: full}}\n", "two")
    on = OnRay() if ray else None
    call = _Call(tmp_path / "out", 2, "cpu", False, lambda cells, done: Silent(), None, None, on)
    pool = Noted()
    call._run(schedule_of(one, two, out=tmp_path / "out"), pool, False, "cpu")
    assert [len(names) for names in pool.offered] == offered
    assert pool.offered[0][:2] == ["run · seed 1", "run · seed 2"]


@pytest.mark.usefixtures("warm_workers")
def test_several_grids_in_one_call_equal_one_call_each(tmp_path):
    one = grid_of(tmp_path, TUNED, "one")
    two = grid_of(tmp_path, "seeds: 2\nvariants: {a: {}, more: {start_from: a}, b: {method: lora}}\n", "two")
    together = run_all([one, two], tmp_path / "out", jobs=2)
    apart = [run_all([grid], tmp_path / f"{place}", jobs=2)[0] for place, grid in enumerate((one, two))]
    assert [results(compared) for compared in together] == [results(compared) for compared in apart]
    assert [compared.choices for compared in together] == [compared.choices for compared in apart]
    assert [compared.ran for compared in together] == [compared.ran for compared in apart] == [8, 6]
    assert list((tmp_path / "out" / "runs").iterdir()) == []
    again = run_all([two, one], tmp_path / "out", jobs=2, again=1)
    assert [compared.ran for compared in again] == [1, 1]
    assert [compared.steps for compared in again] == [2, 2]


@pytest.mark.usefixtures("warm_workers")
def test_weights_stay_for_a_grid_that_keeps_them(tmp_path):
    text = "variants: {a: {}, more: {start_from: a}}\n"
    one, two = grid_of(tmp_path, text, "one"), grid_of(tmp_path, "keep: true\n", "two")
    run_all([one, two], tmp_path / "out", jobs=2)
    assert len(list((tmp_path / "out" / "runs").iterdir())) == 1


@pytest.mark.usefixtures("warm_workers")
def test_when_the_time_is_over_the_cells_of_all_grids_are_counted(tmp_path):
    one = grid_of(tmp_path, TUNED, "one")
    two = grid_of(tmp_path, "seeds: 2\n", "two")
    with pytest.raises(Stopped, match="0 of 10 runs are done"):
        run_all([one, two], tmp_path / "out", minutes=1e-9)
    assert run_here(tmp_path / "two.yaml", tmp_path / "out").ran == 2
