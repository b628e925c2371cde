"""The peak memory of a variant: the tensors that it keeps, and the largest addition during one run."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.speed.machine import synchronise
from benchmarks.speed.timing import Variant

MEBI = 2**20
os.environ.setdefault("KINETO_LOG_LEVEL", "6")  # without the profiler's messages on stderr


def built(build: Callable[[], Variant], device: torch.device, warm: int = 2) -> Variant:
    """Build a variant, run it a few times, and record its peak memory.

    On a GPU that is the growth of the allocator's peak from before it was built, captured graphs' memory
    included. On a CPU it is the tensors that it keeps and the most that one run holds at a time beside them.
    """
    gc.collect()
    before = 0
    if device.type == "cuda":
        synchronise(device)
        before = torch.cuda.memory_allocated(device)
        torch.cuda.reset_peak_memory_stats(device)
    variant = build()
    for _ in range(warm):
        variant.run()
    if device.type == "cuda":
        synchronise(device)
        grown = torch.cuda.max_memory_allocated(device) - before
        variant.peak_mb = (grown + kept(variant.shares)) / MEBI
    elif variant.keeps:
        variant.peak_mb = (kept(variant.keeps) + held_in(variant.run)) / MEBI
    return variant


def kept(things: tuple[object, ...]) -> int:
    """The bytes of the tensors of modules, with gradients, and of optimizer states, each storage once."""
    storages: dict[int, int] = {}
    for tensor in _tensors(things):
        storage = tensor.untyped_storage()
        storages[storage.data_ptr()] = storage.nbytes()
    return sum(storages.values())


def held_in(run: Callable[[], object]) -> int:
    """The largest number of bytes that tensors created in one run take at a time, on a CPU."""
    with torch.profiler.profile(
        activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True
    ) as profile:
        run()
    results: Any = profile.profiler.kineto_results  # type: ignore[union-attr]
    changes = [(event.start_ns(), event.nbytes()) for event in results.events() if event.name() == "[memory]"]
    now = most = 0
    for _, change in sorted(changes, key=lambda one: one[0]):
        now += change
        most = max(most, now)
    return most


def _tensors(things: tuple[object, ...]) -> Iterator[Tensor]:
    for thing in things:
        if isinstance(thing, nn.Module):
            for parameter in thing.parameters():
                yield parameter.data
                if parameter.grad is not None:
                    yield parameter.grad
            yield from thing.buffers()
        elif isinstance(thing, torch.optim.Optimizer):
            for state in thing.state.values():
                yield from (value for value in state.values() if isinstance(value, Tensor))
