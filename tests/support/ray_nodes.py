"""Ray clusters of several nodes on this machine, and commands that run on them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.support.paths import ROOT

SMALL = 80 * 2**20
"""The bytes of a node's object store."""


@contextmanager
def ray_nodes(cpus: tuple[float, ...] = (1, 1)) -> Iterator[Any]:
    """A cluster with a node for each entry; the first is the head node. Yields Ray's `Cluster`.

    Args:
        cpus: the cores that each node offers.
    """
    from weft.utils.ray_start import import_ray

    import_ray()
    from ray.cluster_utils import Cluster

    # a lost node is noticed after a few seconds instead of half a minute
    config = {"health_check_initial_delay_ms": 0, "health_check_period_ms": 1000}
    cluster = Cluster(
        initialize_head=True,
        head_node_args={
            "num_cpus": cpus[0],
            "object_store_memory": SMALL,
            "include_dashboard": False,
            "_system_config": {**config, "health_check_failure_threshold": 5},
        },
    )
    try:
        for cores in cpus[1:]:
            cluster.add_node(num_cpus=cores, object_store_memory=SMALL)
        yield cluster
    finally:
        cluster.shutdown()


CALL = """
import sys
from weft.experiments.grid import load_grid
from weft.experiments.on_ray import OnRay
from weft.experiments.run_grid import run_grid
grid, out, address, apart = sys.argv[1:]
print(run_grid(load_grid(grid), out, on=OnRay(address, apart=bool(int(apart)))).steps)
"""
"""Runs a grid on Ray, in a folder of its nodes or not, and prints the steps that it has taken."""


def weft(*arguments: object, folder: Path) -> subprocess.Popen[str]:
    """A command of weft in a process of its own."""
    return python("-m", "weft", *arguments, folder=folder)


def python(*arguments: object, folder: Path) -> subprocess.Popen[str]:
    """A process of its own that runs Python."""
    return subprocess.Popen(
        [sys.executable, *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": f"{ROOT / 'src'}", "OMP_NUM_THREADS": "1"},
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def ended(process: subprocess.Popen[str], seconds: float = 170) -> tuple[int, str, str]:
    """Wait for a command; returns its exit code and what it printed."""
    try:
        out, errors = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        out, errors = process.communicate()
        raise AssertionError(f"the command did not end\n{out}\n{errors}") from None
    return process.returncode, out, errors
