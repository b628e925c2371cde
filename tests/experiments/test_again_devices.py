"""Where runs are trained once more: on this machine, whatever the first ones were trained on."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.support.tiny_grid import run_here, write_grid
from weft.experiments import ray_pool
from weft.experiments.on_ray import OnRay
from weft.experiments.pool import Pool
from weft.experiments.results import results_of


@pytest.mark.usefixtures("warm_workers")
def test_runs_of_a_ray_cluster_are_trained_again_on_the_device_of_this_machine(tmp_path, monkeypatch):
    """The cluster, here a stand-in, may have GPUs that this machine has not."""
    seen = []

    class Cluster(Pool):
        device = "cuda:7"

        def __init__(self, *_, **settings):
            super().__init__(1, dict(settings["environment"]))

        def run(self, ready, show):
            def jobs():
                waiting = ready()
                seen.extend(job.device for job in waiting)
                return [replace(job, device="cpu") for job in waiting]

            return super().run(jobs, show)

    monkeypatch.setattr(ray_pool, "RayPool", Cluster)
    grid = write_grid(tmp_path, "", steps=2)
    done = run_here(grid, tmp_path / "out", again=1, on=OnRay())
    assert set(seen) == {"cuda:7"}
    assert not done.failed
    assert not done.not_repeated
    assert [run.equal for run in results_of(done).again] == [True]
