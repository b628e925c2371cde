"""The processes that train one model together, as `torchrun` or `accelerate launch` starts them.

Every process knows the whole plan and takes its part of each step; gradients are summed, never averaged,
since the weights of a step's examples are those of the whole step. One process by itself is the same code
with nothing to sum.
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
    """This process among those that train together.

    Attributes:
        rank: its number, from 0.
        world: how many there are.
    """

    def __init__(self, rank: int = 0, world: int = 1) -> None:
        self.rank, self.world = rank, world

    @classmethod
    def join(cls, device: torch.device) -> Processes:
        """Meet the others, if a launcher started any.

        Args:
            device: where the model is: GPUs talk by nccl, CPUs by gloo.
        """
        if not dist.is_available():
            return cls()
        if not dist.is_initialized():
            if launched.world() == 1:
                return cls()
            if device.type == "cuda":
                torch.cuda.set_device(device)
            dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
            atexit.register(_part)
        return cls(dist.get_rank(), dist.get_world_size())

    @property
    def is_main(self) -> bool:
        """Whether this is the process that writes and speaks."""
        return self.rank == 0

    def cut(self, places: Ints) -> Ints:
        """This process's part of some places of a step, [⌈n/world⌉] or one fewer; all parts follow on."""
        return np.array_split(places, self.world)[self.rank]

    def sum_(self, tensors: Sequence[Tensor]) -> None:
        """Sum each tensor over all processes, in place; in one message a device and type."""
        if self.world == 1:
            return
        alike: dict[tuple[torch.device, torch.dtype], list[Tensor]] = {}
        for tensor in tensors:
            alike.setdefault((tensor.device, tensor.dtype), []).append(tensor)
        for group in alike.values():
            flat = torch.cat([t.reshape(-1) for t in group])
            dist.all_reduce(flat)
            parts = flat.split([t.numel() for t in group])
            torch._foreach_copy_(group, [part.view_as(t) for part, t in zip(parts, group, strict=True)])

    def sum_array(
        self, values: np.ndarray[Any, np.dtype[np.float64]]
    ) -> np.ndarray[Any, np.dtype[np.float64]]:
        """The sum of an array over all processes, of the same shape."""
        if self.world == 1:
            return values
        total = torch.from_numpy(values.astype(np.float64)).to(_meeting_place())
        dist.all_reduce(total)
        return total.cpu().numpy()

    def gathered(self, value: T) -> list[T]:
        """What each process gave, in the order of their ranks."""
        if self.world == 1:
            return [value]
        found: list[Any] = [None] * self.world
        dist.all_gather_object(found, value)
        return found

    def on_main(self, work: Callable[[], T]) -> T:
        """Do something in one process; all get what it returned, or raise its `WeftError`."""
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
        """Inside, the main process goes first; what it has cached, the others find."""
        if self.world > 1 and not self.is_main:
            dist.barrier()
        try:
            yield
        finally:
            if self.world > 1 and self.is_main:
                dist.barrier()


def _part() -> None:
    """Take leave of the others, if nobody has yet."""
    if dist.is_initialized():
        dist.destroy_process_group()


def _meeting_place() -> torch.device:
    """Where tensors of a message must lie."""
    return (
        torch.device("cuda", torch.cuda.current_device())
        if dist.get_backend() == "nccl"
        else torch.device("cpu")
    )
