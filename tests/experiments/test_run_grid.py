"""Running grids: cells are skipped, resumed, reported if they fail, and use each other's models."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from tests.support.tiny_grid import kill, results, run_here, running, start, write_grid
from tests.support.warm_workers import start_warm
from weft.errors import WeftError
from weft.experiments.records import ENDING
from weft.experiments.run_grid import environment

pytestmark = pytest.mark.usefixtures("warm_workers")

GRID = "seeds: 2\naxes: {method: [full, lora]}\n"


@pytest.fixture(scope="module")
def done(tmp_path_factory, warm_workers):
    """A grid of four cells that has run once."""
    folder = tmp_path_factory.mktemp("grid")
    grid = write_grid(folder, GRID, steps=6, evaluate_every=3)
    return grid, run_here(grid, folder / "out", jobs=2)


def test_every_cell_has_a_record(done):
    _, compared = done
    assert compared.ran == 4
    assert compared.steps == 4 * 6
    assert not compared.failed
    assert {variant: list(seeds) for variant, seeds in compared.records.items()} == {
        "full": [1, 2],
        "lora": [1, 2],
    }
    record = compared.records["lora"][1]
    assert list(record.metrics) == ["cat", "same", "count"]
    assert [entry["step"] for entry in record.curve][-2:] == [3, 6]
    assert record.rows == {"cat": 12, "same": 12, "count": 12}
    assert record.parameters["trained"] > 0
    assert record.seconds["all"] > 0
    assert record.memory > 0


def test_a_cell_is_what_weft_train_computes(done, tmp_path):
    from weft.config.run_file import load_run
    from weft.evaluation.run_metrics import read_metrics
    from weft.workflows.train import train_run

    grid, compared = done
    run = load_run(grid.parent / "run.yaml", ["method=lora", "train.seed=2"])
    train_run(run, tmp_path / "run", device="cpu", progress=False)
    assert compared.records["lora"][2].metrics == dict(read_metrics(tmp_path / "run").tasks)


def test_a_second_call_trains_nothing(done):
    grid, compared = done
    again = run_here(grid, grid.parent / "out")
    assert (again.ran, again.steps) == (0, 0)
    assert results(again) == results(compared)


def test_weights_are_gone_and_records_are_small(done):
    grid, _ = done
    out = grid.parent / "out"
    assert list((out / "runs").iterdir()) == []
    assert max(path.stat().st_size for path in (out / "records").iterdir()) < 15_000


def test_skipping_imports_no_torch(done):
    grid, _ = done
    code = (
        "import sys; from weft.experiments.grid import load_grid;"
        "from weft.experiments.run_grid import run_grid;"
        "assert run_grid(load_grid(sys.argv[1]), sys.argv[2]).ran == 0;"
        "assert not {'torch', 'transformers'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code, str(grid), str(grid.parent / "out")], check=True)


def test_only_the_cells_that_read_a_changed_row(tmp_path):
    cat = "{cat: {labels: ['no', 'yes'], train: cat.train.jsonl, validation: cat.validation.jsonl}}"
    same = (
        cat.replace("cat", "same")
        .replace("'no', 'yes'", "x, y, z")
        .replace("{labels", "{texts: [a, b], labels")
    )
    grid = write_grid(tmp_path, f"variants: {{cat: {{tasks: {cat}}}, same: {{tasks: {same}}}}}\n", steps=2)
    run_here(grid, tmp_path / "out")
    rows = [json.loads(line) for line in (tmp_path / "same.train.jsonl").read_text().splitlines()]
    rows[0]["a"] = "the old dog"
    (tmp_path / "same.train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    again = run_here(grid, tmp_path / "out")
    assert (again.ran, again.steps) == (1, 2)


def test_a_failed_cell_is_reported_and_the_others_go_on(tmp_path):
    text = "variants: {good: {}, bad: {train.lr: 1.0e+30}, uses_bad: {start_from: bad}}\n"
    grid = write_grid(tmp_path, text, steps=4)
    compared = run_here(grid, tmp_path / "out")
    assert list(compared.records) == ["good"]
    assert "diverged" in compared.failed["bad · seed 1"]
    assert "train.lr" in compared.failed["bad · seed 1"]
    assert compared.failed["uses_bad · seed 1"] == "it uses the run 'bad · seed 1', which failed"


def test_cells_that_use_the_models_of_others(tmp_path):
    task = "{{labels: ['no', 'yes'], train: cat.train.jsonl, validation: cat.validation.jsonl}}"
    count = "{kind: regress, train: count.train.jsonl, validation: count.validation.jsonl}"
    text = f"""
variants:
  one: {{tasks: {{cat: {task[1:-1]}}}}}
  two: {{tasks: {{kitty: {task[1:-1]}}}}}
  both: {{assemble: [one, two]}}
  merged: {{assemble: {{from: [one, two], merge: ties, density: 0.5}}}}
  grown: {{grow: {{from: both, tasks: {{count: {count}}}, train: {{steps: 3}}, grow: {{start: random}}}}}}
  more: {{start_from: one, tasks: {{cat: {task[1:-1]}}}}}
"""
    grid = write_grid(tmp_path, text, steps=4)
    compared = run_here(grid, tmp_path / "out", jobs=2)
    assert not compared.failed
    records = {variant: seeds[1] for variant, seeds in compared.records.items()}
    assert records["both"].metrics["cat"] == records["one"].metrics["cat"]
    assert records["both"].metrics["kitty"] == records["two"].metrics["kitty"]
    assert list(records["merged"].metrics) == ["cat", "kitty"]
    assert records["merged"].settings["assemble"]["merge"] == "ties"
    assert list(records["grown"].metrics) == ["count"]
    assert compared.steps == 4 + 4 + 3 + 4
    assert [entry["step"] for entry in records["grown"].trace["examples"]] == [3]
    assert sum(records["grown"].trace["examples"][0]["examples"].values()) > 0
    assert 0 < records["grown"].measures["data_used"] <= 100
    assert records["both"].trace == {}
    assert list((tmp_path / "out" / "runs").iterdir()) == []
    # a cell that is to run again needs the weights of those it uses, which are trained again for it
    from weft.experiments.records import Records

    Records(tmp_path / "out").path(compared.plan.cells["more · seed 1"].identity).unlink()
    again = run_here(grid, tmp_path / "out")
    assert (again.ran, again.steps) == (2, 8)
    assert results(again) == results(compared)


def test_weights_on_request(tmp_path):
    import weft

    grid = write_grid(tmp_path, "keep: true\n", steps=2)
    compared = run_here(grid, tmp_path / "out")
    (folder,) = (tmp_path / "out" / "runs").iterdir()
    assert weft.load(folder).tasks
    assert compared.plan.has_weights(next(iter(compared.plan.cells.values())))


def test_tuned_values_are_chosen_on_one_half_and_reported_on_the_other(tmp_path):
    text = "seeds: 2\nvariants: {a: {}}\ntune: {over: {train.lr: [1.0e-9, 1.0e-2, 1.0e-1]}, seeds: 1}\n"
    grid = write_grid(tmp_path, text, steps=8)
    compared = run_here(grid, tmp_path / "out", jobs=2)
    assert not compared.failed
    choice = compared.choices["a"]
    assert len(choice.scores) == 3
    assert choice.labels["train.lr"] == max(choice.scores, key=lambda key: (choice.scores[key], key))[0]
    assert choice.edges == (() if choice.labels["train.lr"] == "0.01" else ("train.lr",))
    records = compared.records["a"]
    assert {record.settings["train"]["lr"] for record in records.values()} == {
        float(choice.labels["train.lr"])
    }
    assert records[1].rows == {"cat": 6, "same": 6, "count": 6}
    # the trial with the chosen value and the first seed is the run itself
    assert compared.ran == 3 + 1
    assert run_here(grid, tmp_path / "out").ran == 0


KILLS = [
    pytest.param(1, start_warm, id="once"),
    pytest.param(1, start, id="once, real workers", marks=pytest.mark.more),
    pytest.param(5, start_warm, id="often", marks=pytest.mark.more),
]


@pytest.mark.parametrize(("kills", "begin"), KILLS)
def test_a_killed_grid_ends_as_an_unbroken_one(tmp_path, kills, begin):
    """Real workers are as users have them; all notice that their caller is gone."""
    text = "seeds: 3\naxes: {method: [full, lora], train.sampler: [uniform, proportional]}\n"
    text = text if kills > 1 else "seeds: 2\naxes: {method: [full, lora]}\n"
    cells = 12 if kills > 1 else 4
    grid = write_grid(tmp_path, text, steps=30, evaluate_every=10, checkpoint_every=5)
    expected = run_here(grid, tmp_path / "unbroken", jobs=2)
    assert expected.ran == cells
    for number in range(kills):
        process = begin(grid, tmp_path / "out")
        wanted = (number * cells) // (kills + 1)
        wait_until(lambda wanted=wanted: finished(tmp_path / "out") > wanted, process)
        kill(process)
    compared = run_here(grid, tmp_path / "out", jobs=2)
    assert 0 < compared.ran < cells
    assert results(compared) == results(expected)


def finished(out):
    """How many cells have a record. Records that are being written have other names."""
    return len(list(out.glob(f"records/*{ENDING}")))


def wait_until(reached, process):
    """Wait for what is on disk, however long it takes, while the process runs."""
    while running(process) and not reached():
        time.sleep(0.01)
    assert reached(), "the process ended before"


def test_an_interrupted_grid_keeps_its_checkpoints(tmp_path):
    grid = write_grid(tmp_path, "seeds: 2\n", steps=100_000, checkpoint_every=100_000, log_every=1)
    process = start_warm(grid, tmp_path / "out")
    wait_until(lambda: began(tmp_path / "out", 2), process)
    os.kill(process.pid, signal.SIGINT)
    process.join()
    assert process.exitcode != 0
    assert len(list(tmp_path.glob("out/runs/*/checkpoints/step-*"))) == 2


def began(out, cells):
    """Whether so many cells have logged a step."""
    logs = [path.read_bytes() for path in out.glob("runs/*/log.jsonl")]
    return sum(b'"event": "step"' in log for log in logs) == cells


def test_a_second_caller_is_refused(tmp_path):
    from weft.utils.lock import LOCK, locked

    grid = write_grid(tmp_path, "", steps=2)
    (tmp_path / "out").mkdir()
    with (
        locked(tmp_path / "out" / LOCK, tmp_path / "out", doing="weft compare", file=tmp_path, wait=0.0),
    ):
        process = start(grid, tmp_path / "out")
        process.communicate()
        assert process.returncode != 0


def test_mistakes_of_runs_are_reported_before_anything_is_trained(tmp_path):
    grid = write_grid(tmp_path, "axes: {method.rank: [2, -1, many]}\nseeds: 2\n", steps=2)
    with pytest.raises(WeftError, match="these runs cannot be made") as wrong:
        run_here(grid, tmp_path / "out")
    assert "method.rank" in str(wrong.value)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(("settings", "message"), [({"jobs": 0}, "--jobs|jobs"), ({}, "is a file")])
def test_wrong_arguments(tmp_path, settings, message):
    grid = write_grid(tmp_path, "", steps=2)
    out = grid if not settings else tmp_path / "out"
    with pytest.raises(WeftError, match=message):
        run_here(grid, out, **settings)


def test_workers_share_the_cores(monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr("os.sched_getaffinity", lambda process: set(range(8)), raising=False)
    assert environment(4)["OMP_NUM_THREADS"] == "2"
    assert environment(16)["OMP_NUM_THREADS"] == "1"
    monkeypatch.setenv("OMP_NUM_THREADS", "5")
    assert "OMP_NUM_THREADS" not in environment(4)


def test_tasks_without_labels_in_the_reported_split_are_left_out(tmp_path):
    grid = write_grid(
        tmp_path, "report: test\nvariants: {a: {tasks.cat.test: cat.validation.jsonl}}\n", steps=2
    )
    compared = run_here(grid, tmp_path / "out")
    assert list(compared.records["a"][1].metrics) == ["cat"]


def test_after_its_minutes_no_run_begins_and_nothing_is_lost(tmp_path):
    from weft.experiments.run_grid import Stopped

    grid = write_grid(tmp_path, "seeds: 3\n", steps=2)
    kept = []
    with pytest.raises(Stopped, match=r"the 1e-05 minutes are over; 0 of 3 runs are done") as stopped:
        run_here(grid, tmp_path / "out", minutes=1e-5)
    assert stopped.value.signal == signal.SIGINT
    done = run_here(
        grid,
        tmp_path / "out",
        minutes=60,
        kept=lambda plans: kept.append(sum(len(plan.cells) - len(plan.waiting) for plan in plans)),
    )
    assert kept == [0, 1, 2, 3]
    assert done.ran == 3
    with pytest.raises(WeftError, match="minutes must be above 0; found 0"):
        run_here(grid, tmp_path / "out", minutes=0)
