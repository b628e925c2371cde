"""Actors of Ray: every row once, also if an actor is killed. The cluster is a new one on this machine."""

from __future__ import annotations

import os
import signal
import time
from contextlib import nullcontext

import pytest

from tests.support.corpora import lines_of, write_bundle, write_corpus
from tests.support.ray_nodes import ended, weft
from weft.corpora.job import Settings
from weft.corpora.on_ray import ray_crew
from weft.corpora.predict import predict_files
from weft.errors import WeftError
from weft.utils.temporary import is_leftover_name

SIZES = {f"{at}.jsonl": 400 for at in range(4)}


@pytest.mark.slow
def test_every_row_once_although_an_actor_is_killed(tmp_path, monkeypatch):
    ray = pytest.importorskip("ray")
    from weft.corpora.on_ray import RayCrew

    bundle = write_bundle(tmp_path)
    files = write_corpus(tmp_path / "in", SIZES)
    killed: list[int] = []
    start = RayCrew._start

    def and_kill(crew, ready):
        start(crew, ready)
        if not killed and any((tmp_path / "out").glob("*.jsonl")):
            worker = next(worker for worker in crew.workers if worker.job is not None)
            killed.append(ray.get(worker.actor.process.remote()))
            os.kill(killed[0], signal.SIGKILL)

    monkeypatch.setattr(RayCrew, "_start", and_kill)
    settings = Settings(str(bundle), device="cpu")
    how = {"workers": 1, "on": "ray", "address": "local"}
    reported: list[str] = []
    totals = predict_files(settings, files, tmp_path / "out", report=reported.append, **how)
    assert (totals.files, totals.answered, totals.wrong, totals.failed) == (4, 1600, 0, {}), reported
    assert killed
    local = predict_files(settings, files, tmp_path / "local", workers=1)
    assert local.answered == 1600
    for name in SIZES:
        assert lines_of(tmp_path / "out" / name) == lines_of(tmp_path / "local" / name)
    again = predict_files(settings, files, tmp_path / "out", **how)
    assert again.skipped == 4


def wait_until(condition, process, seconds=150):
    until = time.monotonic() + seconds
    while not condition():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < until
        time.sleep(0.02)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_command_with_advice(tmp_path, number):
    """The signal may come at any moment, most likely inside of Ray's compiled code."""
    pytest.importorskip("ray")
    write_bundle(tmp_path)
    write_corpus(tmp_path / "in", {f"{at:03}.jsonl": 3000 for at in range(40)})
    out = tmp_path / "out"
    command = ["predict", "bundle", "in/*.jsonl", "--out", out, "--on", "ray", "--address", "local"]
    process = weft(*command, "--device", "cpu", "--workers", 1, folder=tmp_path)
    wait_until(lambda: list(out.glob("*.jsonl")), process)
    os.kill(process.pid, number)
    code, _, told = ended(process)
    assert (code, "Traceback" in told, told.count("stopped")) == (128 + number, False, 1), told
    assert "to continue, repeat the command" in told
    assert 1 <= len(list(out.glob("*.jsonl"))) < 40
    assert not [file.name for file in out.iterdir() if is_leftover_name(file.name)]


class FakeRay:
    """A cluster's resources alone."""

    def __init__(self, **resources: float) -> None:
        self.resources = resources

    def cluster_resources(self) -> dict[str, float]:
        return self.resources

    def remote(self, actor: object) -> FakeRay:
        return self

    def options(self, **options: object) -> dict[str, object]:
        return options


@pytest.mark.parametrize(
    ("resources", "device", "workers", "expected"),
    [
        ({"CPU": 32}, None, None, (8, 4, 0)),
        ({"CPU": 32, "GPU": 4}, None, None, (4, 1, 1)),
        ({"CPU": 32, "GPU": 4}, "cpu", None, (8, 4, 0)),
        ({"CPU": 2}, None, 2, (2, 1, 0)),
        ({"CPU": 2}, None, None, (1, 2, 0)),
    ],
)
def test_one_actor_per_gpu_or_group_of_cores(resources, device, workers, expected):
    crew = ray_crew(FakeRay(**resources), workers, device, 100)
    assert (crew._workers, crew._actor["num_cpus"], crew._actor["num_gpus"]) == expected
    assert ray_crew(FakeRay(**resources), workers, device, 1)._workers == 1


@pytest.mark.parametrize(
    ("resources", "device", "workers", "message"),
    [
        ({"CPU": 2}, "cuda", None, "has no GPU"),
        ({"CPU": 2}, "cuda:1", None, "Ray chooses the GPU"),
        ({"CPU": 2}, None, 3, "--workers 3: the Ray cluster has 2 CPUs"),
        ({}, None, None, "neither CPUs nor GPUs"),
    ],
)
def test_what_the_cluster_does_not_have_is_refused(resources, device, workers, message):
    with pytest.raises(WeftError, match=message):
        ray_crew(FakeRay(**resources), workers, device, 9)


@pytest.mark.cpu
def test_a_gpu_is_asked_of_the_cluster_and_not_of_this_machine(tmp_path, monkeypatch):
    monkeypatch.setattr("weft.utils.devices._torch_is_imported", lambda: False)  # as in a new process
    monkeypatch.setattr("weft.corpora.predict.ray_cluster", lambda address: nullcontext(FakeRay(CPU=2)))
    files = write_corpus(tmp_path / "in", {"a.jsonl": 2})
    settings = Settings(str(write_bundle(tmp_path)), device="cuda")
    with pytest.raises(WeftError, match="the Ray cluster has no GPU"):
        predict_files(settings, files, tmp_path / "out", on="ray")
    with pytest.raises(WeftError, match="device 'cuda'"):
        predict_files(settings, files, tmp_path / "out")
