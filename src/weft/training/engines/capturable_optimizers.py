"""Optimisers whose learning rates and absent owners are data on the device.

Outside a graph an absent owner's step is not taken. Inside one every step is taken, and an absent owner's
kernel finds a flag that tells it to leave everything as it is: the flag by which a fused optimiser skips a
step whose gradients overflowed. So both move a present owner by the same kernel.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from weft.training.optim.bert_adam import BertAdam

if TYPE_CHECKING:
    from weft.training.optim.owners import OwnerOptimizers


class CapturableOptimizers:
    """The optimisers of a run, made ready to be captured.

    Args:
        optimizers: each owner's optimiser, which from now on takes its learning rates from `rates`.
        more: how many further numbers go to the device with them in every step.

    Attributes:
        rates: the learning rate of each owner's parameter groups, one after another, [G].
        absent: 1 for each owner that has no example in the step, else 0, [O].
        more: the further numbers.
        numbers: all of these, one after the other.
    """

    def __init__(self, optimizers: OwnerOptimizers, more: int = 0) -> None:
        self._all = optimizers
        self._owners = list(optimizers.optimizers)
        self._groups = [g for o in optimizers.optimizers.values() for g in o.param_groups]
        device = self._groups[0]["params"][0].device
        sizes = [len(self._groups), len(self._owners), more]
        self.numbers = torch.zeros(sum(sizes), device=device)
        self.rates, self.absent, self.more = self.numbers.split(sizes)
        self.absent.fill_(1.0)
        beside = device.type == "cuda" and len(self._owners) > 1
        self._streams = [torch.cuda.Stream(device) for _ in self._owners] if beside else []
        for number, group in enumerate(self._groups):
            group["lr"] = self.rates[number]
            group["capturable"] = device.type == "cuda"
        for number, owner in enumerate(self._owners):
            optimizer: Any = optimizers.optimizers[owner]
            optimizer.found_inf = self.absent[number]

    def set(
        self,
        factor: float,
        peak: float | None,
        tasks: Collection[int],
        drifting: Collection[int],
        more: NDArray[np.float32],
    ) -> None:
        """Put a step's numbers into their places; the owners that it moves count it.

        Args:
            factor: as `OwnerOptimizers.set_factor` takes it.
            peak: as it takes it.
            tasks: as `OwnerOptimizers.step` takes them.
            drifting: as it takes them.
            more: the further numbers.
        """
        moved = self._all.moved_by(tasks, drifting)
        rates = []
        for owner in self._owners:
            optimizer = self._all.optimizers[owner]
            for group in optimizer.param_groups:
                rate = group["top"] = self._all.rate(group, factor, peak)
                if isinstance(optimizer, BertAdam):
                    rate *= optimizer.factor(group, optimizer.done(group))
                rates.append(rate)
            if isinstance(optimizer, BertAdam) and owner in moved:
                optimizer.count()
        absent = [0.0 if owner in moved else 1.0 for owner in self._owners]
        numbers = torch.from_numpy(np.concatenate([rates, absent, more]).astype(np.float32))
        if self.numbers.is_cuda:
            numbers = numbers.pin_memory()
        self.numbers.copy_(numbers, non_blocking=True)

    def release(self) -> None:
        """Give the optimisers back as they were: rates are numbers again, and every step is taken."""
        for number, group in enumerate(self._groups):
            group["lr"], group["capturable"] = float(self.rates[number]), False
        for owner in self._owners:
            self._all.optimizers[owner].__dict__.pop("found_inf", None)

    @torch.no_grad()
    def step(self) -> None:
        """Move every owner that is not absent: on a GPU side by side, for each has little to do."""
        if not self._streams:
            for owner in self._owners:
                self._move(owner)
            return
        here = torch.cuda.current_stream(self.numbers.device)
        for owner, stream in zip(self._owners, self._streams, strict=True):
            stream.wait_stream(here)
            with torch.cuda.stream(stream):
                self._move(owner)
        for stream in self._streams:
            here.wait_stream(stream)

    def _move(self, owner: str) -> None:
        self._all.follow(owner)
        self._all.optimizers[owner].step()
