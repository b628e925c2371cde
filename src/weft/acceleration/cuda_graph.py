"""Captures a function into a CUDA graph, so that all its kernels are launched at once."""

from __future__ import annotations

import gc
import warnings
from collections.abc import Callable
from functools import cache
from typing import Any, Literal

import torch

from weft.acceleration.masks import capturable_masks

Mode = Literal["global", "thread_local"]
"""Which unsafe CUDA calls fail during a capture: those of all threads, or only of the capturing thread."""

WARM_UPS = 3
"""Runs before the capture, in which the compiler, cuBLAS and lazy state are initialized."""


class Capturer:
    """Captures functions over fixed memory, all in one memory pool.

    Nothing that a captured function allocates is read after it ends, so graphs may share their memory. On a
    CPU there is nothing to capture, and the function itself is returned: the same code runs eagerly.

    Args:
        device: the device of the function's tensors.
        warm_ups: the number of runs before the capture.
        mode: `thread_local` if other threads use the device at the same time.
    """

    def __init__(
        self,
        device: torch.device,
        warm_ups: int = WARM_UPS,
        mode: Mode = "global",
    ) -> None:
        self.device, self._warm_ups, self._mode = device, warm_ups, mode
        self._pool: Any = None

    def __call__(self, function: Callable[[], None]) -> Callable[[], None]:
        """Return a function that does the same to the same memory.

        Every replay draws new random numbers from the device's generator. The generator's state before this
        call is restored, even if the capture fails.
        """
        if self.device.type != "cuda":
            return function
        # a capture applies to the current device
        with torch.cuda.device(self.device), capturable_masks():
            return self._captured(function)

    def _captured(self, function: Callable[[], None]) -> Callable[[], None]:
        if self._pool is None:
            self._pool = torch.cuda.graph_pool_handle()
            # a backward pass runs on the streams of graphs that are still alive, dead cycles among them
            gc.collect()
        state = torch.cuda.get_rng_state(self.device)
        beside = _warm_up_stream(torch.cuda.current_device())
        beside.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(beside):
            for _ in range(self._warm_ups):
                function()
        torch.cuda.current_stream(self.device).wait_stream(beside)
        torch.cuda.synchronize(self.device)
        graph, current = torch.cuda.CUDAGraph(), torch.cuda.current_stream(self.device)
        try:
            with torch.cuda.graph(graph, pool=self._pool, capture_error_mode=self._mode):
                function()
        except BaseException:
            torch.cuda.set_stream(current)  # torch leaves the stream of the capture as the current one
            self._pool = None  # the allocator believes that the capture continues, and would reject a new one
            _end_capture(self._mode)
            raise
        finally:
            torch.cuda.set_rng_state(state, self.device)
        return _Replay(graph, function)


@cache
def _warm_up_stream(index: int) -> torch.cuda.Stream:
    """Return the stream of all warm-ups on this device.

    cuBLAS keeps one workspace per stream, of 32 MiB on Hopper, until the process ends. A new stream for each
    capture would leave one behind for each shape.
    """
    return torch.cuda.Stream(index)


def _end_capture(mode: Mode) -> None:
    """Make the device's generator usable again after a capture that failed.

    The generator is notified when a capture begins and ends, but not when it fails: every later dropout
    would raise. So this begins and ends an empty capture.

    Args:
        mode: that of the capture that failed: other threads may still use the device.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the warning that the graph is empty
        with torch.cuda.graph(torch.cuda.CUDAGraph(), capture_error_mode=mode):
            pass


class _Replay:
    """A captured graph. It keeps the function alive, and with it all tensors that the graph uses."""

    def __init__(self, graph: torch.cuda.CUDAGraph, function: Callable[[], None]) -> None:
        self._graph, self._function = graph, function

    def __call__(self) -> None:
        self._graph.replay()
