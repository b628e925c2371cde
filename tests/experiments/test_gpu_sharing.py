"""Sharing a GPU: when the daemon of MPS is started, and what happens without it. Programs are replaced."""

from __future__ import annotations

import os
import stat

import pytest

from tests.support.tiny_grid import write_grid
from weft.experiments import gpu_sharing
from weft.experiments.gpu_sharing import has_gpu, shared_gpu


@pytest.fixture
def programs(tmp_path, monkeypatch):
    """A folder of programs that stand for those of NVIDIA, and the log of their calls."""
    folder, log = tmp_path / "bin", tmp_path / "calls"
    folder.mkdir()
    log.touch()
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    monkeypatch.delenv("CUDA_MPS_PIPE_DIRECTORY", raising=False)

    def add(name, text):
        file = folder / name
        file.write_text(f"#!/bin/sh\necho {name} $* $CUDA_MPS_PIPE_DIRECTORY >> {log}\n{text}\n")
        file.chmod(file.stat().st_mode | stat.S_IXUSR)

    add.log = log
    return add


def test_without_a_gpu(programs):
    programs("nvidia-smi", "exit 9")
    assert not has_gpu()
    with shared_gpu(4, None, pytest.fail) as variables:
        assert variables == {}


@pytest.mark.parametrize(("jobs", "device"), [(1, None), (4, "cpu")])
def test_where_nothing_is_shared(programs, jobs, device):
    programs("nvidia-smi", "echo GPU 0")
    programs("nvidia-cuda-mps-control", "exit 0")
    with shared_gpu(jobs, device, pytest.fail) as variables:
        assert variables == {}
    assert "mps" not in programs.log.read_text()


def test_the_daemon_runs_while_the_grid_runs(programs, monkeypatch):
    programs("nvidia-smi", "echo GPU 0")
    programs("nvidia-cuda-mps-control", "cat > /dev/null; exit 0")
    monkeypatch.setattr(gpu_sharing, "PROBE", "pass")
    with shared_gpu(4, "cuda", pytest.fail) as variables:
        assert os.path.isdir(variables["CUDA_MPS_PIPE_DIRECTORY"])
        assert programs.log.read_text().count("mps-control") == 1
    assert not os.path.isdir(variables["CUDA_MPS_PIPE_DIRECTORY"])
    calls = [line for line in programs.log.read_text().splitlines() if "mps" in line]
    assert len(calls) == 2
    assert all(variables["CUDA_MPS_PIPE_DIRECTORY"] in call for call in calls)


@pytest.mark.parametrize(
    ("text", "probe", "message"),
    [("echo no rights >&2; exit 1", "pass", "no rights"), ("cat > /dev/null", "1/0", "no process could use")],
)
def test_a_daemon_that_does_not_work(programs, monkeypatch, text, probe, message):
    programs("nvidia-smi", "echo GPU 0")
    programs("nvidia-cuda-mps-control", text)
    monkeypatch.setattr(gpu_sharing, "PROBE", probe)
    told = []
    with shared_gpu(2, None, told.append) as variables:
        assert variables == {}
    assert message in told[0]
    assert "take turns" in told[0]


def test_a_daemon_that_keeps_its_output_open_is_not_waited_for(programs, monkeypatch):
    """A daemon that inherits a pipe would hold whoever reads it until the daemon ends."""
    programs("nvidia-smi", "echo GPU 0")
    programs(
        "nvidia-cuda-mps-control", '[ "$1" = -d ] && (sleep 60 &); [ "$1" = -d ] || cat > /dev/null; exit 0'
    )
    monkeypatch.setattr(gpu_sharing, "PROBE", "pass")
    monkeypatch.setattr(gpu_sharing, "PATIENCE", 20.0)
    with shared_gpu(2, None, pytest.fail) as variables:
        assert variables


def test_a_process_that_hangs_on_the_gpu_does_not_hang_the_grid(programs, monkeypatch):
    programs("nvidia-smi", "echo GPU 0")
    programs("nvidia-cuda-mps-control", "cat > /dev/null")
    monkeypatch.setattr(gpu_sharing, "PROBE", "import time; time.sleep(60)")
    monkeypatch.setattr(gpu_sharing, "PATIENCE", 1.0)
    told = []
    with shared_gpu(2, None, told.append) as variables:
        assert variables == {}
    assert "timed out" in told[0]


def test_a_gpu_without_the_program_that_lists_it(tmp_path, monkeypatch):
    monkeypatch.setattr(gpu_sharing.shutil, "which", lambda name: None)
    monkeypatch.setattr(gpu_sharing, "DEVICES", tmp_path)
    (tmp_path / "nvidiactl").touch()
    assert not has_gpu()
    (tmp_path / "nvidia0").touch()
    assert has_gpu()


def test_no_daemon(programs, monkeypatch):
    programs("nvidia-smi", "echo GPU 0")
    monkeypatch.setattr(gpu_sharing, "CONTROL", "no-such-program")
    told = []
    with shared_gpu(2, None, told.append) as variables:
        assert variables == {}
    assert "no-such-program" in told[0]


@pytest.mark.parametrize(
    "message", [{"gone": -9, "failed": "killed"}, {"broken": True, "failed": "CUDA error"}]
)
@pytest.mark.parametrize("shared", [True, False])
def test_with_mps_a_process_that_broke_off_is_tried_once_more(tmp_path, message, shared):
    """An error of one process on the GPU ends all others that share it."""
    from weft.experiments.grid import load_grid
    from weft.experiments.plan import Plan
    from weft.experiments.run_grid import _Call
    from weft.experiments.schedule import Schedule

    class Breaks:
        """A pool in which every process breaks off."""

        running = frozenset()
        jobs = 0

        def run(self, next_jobs, show):
            while ready := next_jobs():
                self.jobs += 1
                yield ready[0], message

        def close(self):
            pass

    grid = load_grid(write_grid(tmp_path, "", steps=2))
    from weft.experiments.display import Silent

    call = _Call(tmp_path / "out", 2, "cpu", False, lambda cells, done: Silent(), None, None)
    schedule = Schedule([Plan(grid, tmp_path / "out")])
    pool = Breaks()
    call._run(schedule, pool, shared, "cpu")
    assert pool.jobs == (2 if shared else 1)
    assert call.results(schedule)[0].failed == {"run · seed 1": message["failed"]}
