"""Grids on Ray clusters of several nodes on this machine: the results are those of the same grid run here."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import signal
import tempfile
import time
from pathlib import Path

import pytest

from tests.support.ray_nodes import CALL, ended, python, ray_nodes, weft
from tests.support.tiny_grid import results, run_here, write_grid
from weft.errors import WeftError, command_line
from weft.experiments.compared import recorded
from weft.experiments.grid import load_grid
from weft.experiments.on_ray import OnRay, checked_gpus

pytest.importorskip("ray")

TWELVE = "seeds: 3\naxes: {method: [full, lora, bitfit, houlsby]}\n"
STEPS = {"steps": 60, "evaluate_every": 20, "checkpoint_every": 5}


@pytest.fixture(scope="module")
def one_node(module_patch):
    with ray_nodes((1,)) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def module_patch():
    """Cells have one thread, here as there: numbers depend on it in their last digits."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OMP_NUM_THREADS", "1")
        yield patch


def wait_until(condition, process, seconds=150):
    end = time.monotonic() + seconds
    while not condition():
        if process.poll() is not None or time.monotonic() > end:
            process.kill()
            raise AssertionError(f"it did not happen\n{process.communicate()[1]}")
        time.sleep(0.05)


def records(out):
    return sorted(path.name for path in (out / "records").glob("*.gz")) if out.is_dir() else []


def with_checkpoints(out, most=None):
    """The runs that have a checkpoint and no record.

    Args:
        out: the folder of the comparison.
        most: leave out runs that have taken more steps: they may end at any moment.
    """
    steps = {}
    for path in out.glob("runs/*/checkpoints/step-*"):
        if number := re.match(r"step-(\d+)", path.name):
            run = path.parents[1].name
            steps[run] = max(steps.get(run, 0), int(number[1]))
    runs = {run for run, step in steps.items() if most is None or step <= most}
    return runs - {name[:16] for name in records(out)}


def sent_checkpoints(out):
    """The runs that have sent a checkpoint and no record."""
    return {path.stem for path in out.glob("checkpoints/*.zip")} - {name[:16] for name in records(out)}


def remove_from_node(out):
    """Remove what the cells of a comparison have written on their node; they may still be ending."""
    home = Path(tempfile.gettempdir()) / f"weft-ray-{os.getuid()}"
    own = f"{hashlib.sha256(str(out).encode()).hexdigest()[:8]}-*"
    assert list(home.glob(own))
    while folders := list(home.glob(own)):
        for folder in folders:
            shutil.rmtree(folder, ignore_errors=True)
        time.sleep(1)


@pytest.mark.slow
@pytest.mark.parametrize("apart", [False, True])
def test_cells_on_ray_end_as_cells_here(tmp_path, one_node, warm_workers, apart):
    """Where nodes see the folder of the comparison, and where they do not."""
    grid = write_grid(tmp_path, "seeds: 2\n", steps=6, evaluate_every=3, checkpoint_every=2)
    local = results(run_here(grid, tmp_path / "local"))
    out = tmp_path / "out"
    compared = run_here(grid, out, on=OnRay(one_node.address, apart=apart))
    assert not compared.failed
    assert (compared.ran, compared.steps) == (2, 12)
    assert results(compared) == local
    assert [path.name for path in out.glob(".ray*")] == []
    assert [path.name for path in out.glob("checkpoints/*")] == []
    assert len(list((out / "logs").glob("*.log"))) == 2
    again = run_here(grid, out, on=OnRay("127.0.0.1:1"))  # it is not even joined
    assert again.ran == 0


@pytest.mark.slow
def test_a_lost_node_changes_nothing(tmp_path, module_patch, warm_workers):
    steps_of_each = 240  # seconds: the node is lost in the middle of a cell, not when it has just ended one
    grid = write_grid(tmp_path, TWELVE, **{**STEPS, "steps": steps_of_each})
    out = tmp_path / "out"
    with ray_nodes((1, 1)) as cluster:
        lost = next(node for node in cluster.list_all_nodes() if not node.head)
        command = python("-c", CALL, grid, out, cluster.address, 0, folder=tmp_path)
        half = steps_of_each // 2
        wait_until(lambda: len(records(out)) >= 4 and len(with_checkpoints(out, half)) >= 2, command)
        cluster.remove_node(lost, allow_graceful=False)
        code, steps, errors = ended(command)
    assert code == 0, errors
    assert "was lost; it goes on at" in errors
    # of the lost cell, the steps after its checkpoint
    assert 11 * steps_of_each <= int(steps) < 12 * steps_of_each
    local = run_here(grid, tmp_path / "local", jobs=2)
    assert results(recorded(load_grid(grid), out)) == results(local)


@pytest.mark.slow
@pytest.mark.parametrize("apart", [False, True])
def test_a_killed_driver_trains_nothing_twice(tmp_path, module_patch, one_node, warm_workers, apart):
    """The second call runs what has no record, from its checkpoint: fewer steps than it has in all.

    With `apart`, that checkpoint has come back through Ray: the folder of the node is removed.
    """
    grid = write_grid(tmp_path, "seeds: 2\naxes: {method: [full, lora]}\n", **STEPS)
    out = tmp_path / "out"
    command = python("-c", CALL, grid, out, one_node.address, int(apart), folder=tmp_path)
    found = sent_checkpoints if apart else with_checkpoints
    wait_until(lambda: len(records(out)) >= 1 and found(out), command)
    os.kill(command.pid, signal.SIGKILL)
    command.communicate()
    if apart:
        remove_from_node(out)
    done = records(out)
    content = {name: (out / "records" / name).read_bytes() for name in done}
    again = run_here(grid, out, on=OnRay(one_node.address, apart=apart))
    assert again.ran <= 4 - len(done)
    assert again.steps < (4 - len(done)) * STEPS["steps"], "a cell goes on from its checkpoint"
    assert {name: (out / "records" / name).read_bytes() for name in done} == content
    assert results(again) == results(run_here(grid, tmp_path / "local", jobs=2))


@pytest.mark.slow
def test_ctrl_c_writes_checkpoints(tmp_path, one_node):
    grid = write_grid(tmp_path, "seeds: 2\n", steps=20_000, checkpoint_every=100_000)
    out = tmp_path / "out"
    arguments = ("compare", grid, "--out", out, "--on", "ray", "--address", one_node.address)
    command = weft(*arguments, folder=tmp_path)
    wait_until(lambda: list(out.glob("runs/*/log.jsonl")), command)
    os.kill(command.pid, signal.SIGINT)
    code, _, errors = ended(command)
    assert code == 130, errors
    assert "0 of 2 runs are done" in errors
    assert with_checkpoints(out)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"gpus": 0.25}, "--gpus-per-cell 0.25: no node of the Ray cluster has so many GPUs, none has any"),
        ({"cpus": 64}, "--cpus-per-cell 64: no node of the Ray cluster has so many CPUs, the largest has 1"),
    ],
)
def test_what_no_node_has_is_refused(tmp_path, one_node, settings, message):
    grid = write_grid(tmp_path, "seeds: 1\n", steps=2)
    with command_line(), pytest.raises(WeftError, match=message):
        run_here_any_device(grid, tmp_path / "out", OnRay(one_node.address, **settings))


def run_here_any_device(grid, out, on):
    from weft.experiments.run_grid import run_grid

    return run_grid(load_grid(grid), out, on=on)


def test_a_node_names_what_it_lacks(tmp_path, monkeypatch):
    from weft.experiments import ray_node
    from weft.experiments.plan import Plan
    from weft.experiments.ray_needs import needed_by

    grid = write_grid(tmp_path, "seeds: 1\n", steps=2)
    plan = Plan(load_grid(grid), tmp_path / "out")
    needed = needed_by(plan.waiting, ["train", "validation"], str(tmp_path / "probe"))
    assert len(needed.files) == 6
    monkeypatch.setattr(ray_node, "node_name", lambda ray: "somewhere (10.0.0.2)")
    assert ray_node.check_node(needed) == ray_node.Found("somewhere (10.0.0.2)", [], False)
    (tmp_path / "probe").touch()
    (tmp_path / "cat.train.jsonl").unlink()
    (tmp_path / "same.train.jsonl").write_text("{}\n")
    found = ray_node.check_node(needed)
    assert found.shares
    assert list(found.missing) == [
        f"{tmp_path / 'cat.train.jsonl'} is missing",
        f"{tmp_path / 'same.train.jsonl'} has a different content than here",
    ]


def node(**resources):
    return {"Alive": True, "Resources": resources}


def test_gpus_of_a_cell():
    with_gpu, without = node(CPU=8, GPU=2), node(CPU=4)
    assert checked_gpus([without], OnRay(), None) == 0
    assert checked_gpus([without, with_gpu], OnRay(), None) == 1
    assert checked_gpus([without, with_gpu], OnRay(), "cpu") == 0
    assert checked_gpus([with_gpu], OnRay(gpus=0.25), "cuda") == 0.25
    for settings, device, message in [
        (OnRay(gpus=0.5), "cpu", "device cpu"),
        (OnRay(gpus=0), "cuda", "cells have no GPU"),
        (OnRay(), "cuda:1", "Ray chooses the GPU"),
        (OnRay(gpus=4), None, "the largest has 2"),
    ]:
        with pytest.raises(WeftError, match=message):
            checked_gpus([with_gpu], settings, device)


@pytest.mark.parametrize(
    ("name", "value"), [("cpus", 0.0), ("cpus", float("nan")), ("gpus", -1), ("gpus", 1.5)]
)
def test_bad_numbers_are_refused(name, value):
    with command_line(), pytest.raises(WeftError, match=f"--{name}-per-cell"):
        OnRay(**{name: value})
