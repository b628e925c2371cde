"""Communication between the processes that train one model, started by `torchrun` or `accelerate launch`.

Every process knows the whole plan and takes its share of each step. Gradients are summed, never averaged,
since the examples' weights are computed over the whole step. A single process runs the same code and has
nothing to sum.
"""

from __future__ import annotations

import atexit
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor

from weft.errors import WeftError
from weft.utils import launch_env as launched
from weft.utils.counter_rng import Ints

T = TypeVar("T")


class Processes:
    """The process group that trains together, seen from this process.

    Attributes:
        rank: the number of this process, from 0.
        world: the number of processes.
    """

    def __init__(self, rank: int = 0, world: int = 1) -> None:
        self.rank, self.world = rank, world

    @classmethod
    def join(cls, device: torch.device) -> Processes:
        """Join the process group, if a launcher started several processes.

        Args:
            device: the model's device: GPUs communicate by nccl, CPUs by gloo.
        """
        if not dist.is_available():
            return cls()
        if not dist.is_initialized():
            if launched.world() == 1:
                return cls()
            if device.type == "cuda":
                torch.cuda.set_device(device)
            dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
            atexit.register(_leave)
        return cls(dist.get_rank(), dist.get_world_size())

    @property
    def is_main(self) -> bool:
        """Whether this is the process that writes files and logs."""
        return self.rank == 0

    def cut(self, places: Ints) -> Ints:
        """Return this process's share of a step's places, [⌈n/world⌉] or one fewer; shares are contiguous."""
        return np.array_split(places, self.world)[self.rank]

    def sum_(self, tensors: Sequence[Tensor]) -> None:
        """Sum each tensor over all processes, in place, with one message per device and dtype."""
        if self.world == 1:
            return
        groups: dict[tuple[torch.device, torch.dtype], list[Tensor]] = {}
        for tensor in tensors:
            groups.setdefault((tensor.device, tensor.dtype), []).append(tensor)
        for group in groups.values():
            flat = torch.cat([t.reshape(-1) for t in group])
            dist.all_reduce(flat)
            parts = flat.split([t.numel() for t in group])
            torch._foreach_copy_(group, [part.view_as(t) for part, t in zip(parts, group, strict=True)])

    def sum_array(
        self, values: np.ndarray[Any, np.dtype[np.float64]]
    ) -> np.ndarray[Any, np.dtype[np.float64]]:
        """Return the sum of an array over all processes, of the same shape."""
        if self.world == 1:
            return values
        total = torch.from_numpy(values.astype(np.float64)).to(_message_device())
        dist.all_reduce(total)
        return total.cpu().numpy()

    def gathered(self, value: T) -> list[T]:
        """Return the value of each process, in the order of their ranks."""
        if self.world == 1:
            return [value]
        values: list[Any] = [None] * self.world
        dist.all_gather_object(values, value)
        return values

    def on_main(self, work: Callable[[], T]) -> T:
        """Call `work` in the main process only; all processes return its result or raise its `WeftError`."""
        if self.world == 1:
            return work()
        outcome: list[Any] = [None, None]
        if self.is_main:
            try:
                outcome[0] = work()
            except (WeftError, OSError) as wrong:
                outcome[1] = wrong
        dist.broadcast_object_list(outcome)
        if outcome[1] is not None:
            raise outcome[1]
        return outcome[0]

    @contextmanager
    def main_first(self) -> Iterator[None]:
        """Inside, the main process runs first, and the other processes find what it has cached."""
        if self.world > 1 and not self.is_main:
            dist.barrier()
        try:
            yield
        finally:
            if self.world > 1 and self.is_main:
                dist.barrier()


def _leave() -> None:
    """Destroy the process group, unless that has happened already."""
    if dist.is_initialized():
        dist.destroy_process_group()


def _message_device() -> torch.device:
    """Return the device that the tensors of a message must be on."""
    return (
        torch.device("cuda", torch.cuda.current_device())
        if dist.get_backend() == "nccl"
        else torch.device("cpu")
    )
