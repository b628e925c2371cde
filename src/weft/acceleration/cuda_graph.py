"""Capturing a function into a CUDA graph: its kernels are launched by the device, in one go."""

from __future__ import annotations

import gc
import warnings
from collections.abc import Callable
from typing import Any, Literal

import torch

from weft.acceleration.masks import capturable_masks

WARM_UPS = 3
"""Runs before the capture: the compiler, cuBLAS and lazily made states have all been at work then."""


class Capturer:
    """Turns functions over fixed memory into captured ones, all in one pool of memory.

    Nothing that a captured function allocates is read after it ends, so that graphs may share their memory.
    On a CPU there is nothing to capture, and the function itself is returned: the same code runs eagerly.

    Args:
        device: where the function's tensors are.
        warm_ups: runs before the capture.
        mode: which calls of the CUDA driver a capture forbids: those of all threads (`global`), or of its own
            (`thread_local`) where other threads use the device at the same time.
    """

    def __init__(
        self,
        device: torch.device,
        warm_ups: int = WARM_UPS,
        mode: Literal["global", "thread_local"] = "global",
    ) -> None:
        self.device, self._warm_ups, self._mode = device, warm_ups, mode
        self._pool: Any = None

    def __call__(self, function: Callable[[], None]) -> Callable[[], None]:
        """A function that does the same to the same memory.

        Random numbers are drawn anew in every replay, from the device's generator as it is seeded then. Its
        state before this call is put back, also where the capture fails.
        """
        if self.device.type != "cuda":
            return function
        # a capture is of the current device
        with torch.cuda.device(self.device), capturable_masks():
            return self._captured(function)

    def _captured(self, function: Callable[[], None]) -> Callable[[], None]:
        if self._pool is None:
            self._pool = torch.cuda.graph_pool_handle()
            # a backward pass runs on the streams of graphs that are still alive, dead cycles among them
            gc.collect()
        state = torch.cuda.get_rng_state(self.device)
        beside = torch.cuda.Stream(self.device)
        beside.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(beside):
            for _ in range(self._warm_ups):
                function()
        torch.cuda.current_stream(self.device).wait_stream(beside)
        torch.cuda.synchronize(self.device)
        graph = torch.cuda.CUDAGraph()
        try:
            with torch.cuda.graph(graph, pool=self._pool, capture_error_mode=self._mode):
                function()
        except BaseException:
            self._pool = None  # the allocator believes that the capture goes on, and would refuse another
            _end_capture()
            raise
        finally:
            torch.cuda.set_rng_state(state, self.device)
        return _Replay(graph, function)


def _end_capture() -> None:
    """Let the device's generator draw again after a capture that broke off.

    It is told that a capture begins and that it ends, but not that it broke off: every later dropout would
    raise. So a capture of nothing begins and ends.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that the graph is empty
        with torch.cuda.graph(torch.cuda.CUDAGraph()):
            pass


class _Replay:
    """A captured graph. It holds the function, and so all tensors that the graph reads and writes."""

    def __init__(self, graph: torch.cuda.CUDAGraph, function: Callable[[], None]) -> None:
        self._graph, self._function = graph, function

    def __call__(self) -> None:
        self._graph.replay()
