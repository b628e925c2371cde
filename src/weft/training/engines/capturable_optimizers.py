"""Optimizers that can be captured in a CUDA graph: learning rates and absent owners are data on the device.

Outside a graph the step of an absent owner is skipped. Inside a graph every owner's kernel runs, and the
kernel of an absent owner reads a flag and changes nothing: the flag by which a fused optimizer skips a step
whose gradients overflowed. A present owner is updated by the same kernel in both cases.
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
    """The optimizers of a run, prepared for capture.

    Args:
        optimizers: the optimizer of each owner; from now on it reads its learning rates from `rates`.
        more: how many additional numbers are copied to the device in every step.

    Attributes:
        rates: the learning rate of every parameter group of every owner, [G].
        absent: 1 for each owner without an example in the step, else 0, [O].
        more: the additional numbers.
        numbers: the concatenation of these three.
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
        concurrent = device.type == "cuda" and len(self._owners) > 1
        self._streams = [torch.cuda.Stream(device) for _ in self._owners] if concurrent else []
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
        """Copy the numbers of a step to the device, and count the step for the owners that it updates.

        Args:
            factor: see `OwnerOptimizers.set_factor`.
            peak: see `OwnerOptimizers.set_factor`.
            tasks: see `OwnerOptimizers.step`.
            drifting: see `OwnerOptimizers.step`.
            more: the additional numbers.
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
        """Restore the optimizers: learning rates are numbers again, and no owner is masked."""
        for number, group in enumerate(self._groups):
            group["lr"], group["capturable"] = float(self.rates[number]), False
        for owner in self._owners:
            self._all.optimizers[owner].__dict__.pop("found_inf", None)

    @torch.no_grad()
    def step(self) -> None:
        """Update every owner that is not absent; on a GPU in parallel streams, because kernels are small."""
        if not self._streams:
            for owner in self._owners:
                self._update(owner)
            return
        main = torch.cuda.current_stream(self.numbers.device)
        for owner, stream in zip(self._owners, self._streams, strict=True):
            stream.wait_stream(main)
            with torch.cuda.stream(stream):
                self._update(owner)
        for stream in self._streams:
            main.wait_stream(stream)

    def _update(self, owner: str) -> None:
        self._all.follow(owner)
        self._all.optimizers[owner].step()
