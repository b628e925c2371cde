"""What the children of the fork server do; see fork_server.py."""

from __future__ import annotations

import os
import sys

import torch

import weft.cli


def train_together(calls: list[list[str]], rank: int, world: int, port: int, cache: str) -> None:
    """Run `weft train` with each of these arguments as one of several processes, in one meeting."""
    os.environ.update(
        WEFT_CACHE=cache,
        RANK=str(rank),
        WORLD_SIZE=str(world),
        LOCAL_RANK=str(rank),
        MASTER_ADDR="127.0.0.1",
        MASTER_PORT=str(port),
    )
    torch.set_num_threads(1)
    sys.stdout = sys.stderr = open(os.devnull if rank else f"{cache}.log", "w")  # noqa: SIM115
    code = max(weft.cli.run(["train", *call, "--device", "cpu"]) for call in calls)
    sys.stdout.flush()
    os._exit(code)


def train(arguments: list[str], threads: int, cache: str) -> None:
    """Run `weft train` in this process."""
    os.environ["WEFT_CACHE"] = cache
    torch.set_num_threads(threads)
    with open(os.devnull, "w") as nothing:
        sys.stdout = sys.stderr = nothing
        os._exit(weft.cli.run(["train", *arguments, "--device", "cpu"]))
