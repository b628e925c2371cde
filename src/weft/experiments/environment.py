"""Environment variables of the processes that run cells."""

from __future__ import annotations

import os

from weft.utils.cores import cores


def environment(jobs: int) -> dict[str, str]:
    """Variables of workers on this machine, unless the user has set them.

    Args:
        jobs: how many processes run at once.
    """
    wanted = _variables(max(1, cores() // jobs))
    return {name: value for name, value in wanted.items() if name not in os.environ}


def on_nodes(threads: int) -> dict[str, str]:
    """Variables of workers on the nodes of a cluster, with the values that the user has set here.

    Args:
        threads: the CPU threads of a cell.
    """
    return {name: os.environ.get(name, value) for name, value in _variables(threads).items()}


def _variables(threads: int) -> dict[str, str]:
    cores = str(threads)
    return {
        "OMP_NUM_THREADS": cores,
        "TORCHINDUCTOR_COMPILE_THREADS": cores,  # by default each process starts a worker for every core
        "TORCHINDUCTOR_FX_GRAPH_CACHE": "1",  # the second run of a method finds what the first compiled
        "TOKENIZERS_PARALLELISM": "true",
    }
