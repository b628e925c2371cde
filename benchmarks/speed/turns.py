"""Run two or more training loops in one process that take turns, some steps each.

Whole runs one after the other would each see a different load of the machine. Here every loop runs in a
separate thread, and only the loop whose turn it is works; the others wait inside their step.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence

import torch

from benchmarks.speed.machine import synchronise


class Turns:
    """Passes the turn from loop to loop.

    Args:
        names: the loops, in their order.
        every: the steps of a turn.
        device: it is waited for at the end of a turn.

    Attributes:
        seconds: what each turn took, by loop; the first holds the start (compiling, capturing), and each of
            the others what comes after the last one's steps: an evaluation, a checkpoint.
        ending: what each loop took after its last step.
        failed: what ended a loop early, by loop.
    """

    def __init__(self, names: Sequence[str], every: int, device: torch.device) -> None:
        self._names, self.every, self._device = list(names), every, device
        self._turn = threading.Condition()
        self._now = self._names[0]
        self._waiting = list(self._names)
        self._began = 0.0
        self._steps = dict.fromkeys(names, 0)
        self.seconds: dict[str, list[float]] = {name: [] for name in names}
        self.ending = dict.fromkeys(names, 0.0)
        self.failed: dict[str, BaseException] = {}

    def step(self, name: str, done: int) -> None:
        """Called by a loop with its number of finished steps; its turn may end here."""
        if done - self._steps[name] < self.every:
            return
        self._steps[name] = done
        synchronise(self._device)
        self.seconds[name].append(time.perf_counter() - self._began)
        self._pass_on(name)
        self._wait(name)

    def run(self, loops: dict[str, Callable[[], object]]) -> None:
        """Run all loops to the end."""
        threads = int(torch.get_num_threads())
        running = [
            threading.Thread(target=self._one, args=(name, loop, threads), daemon=True)
            for name, loop in loops.items()
        ]
        for thread in running:
            thread.start()
        for thread in running:
            thread.join()

    def _one(self, name: str, loop: Callable[[], object], threads: int) -> None:
        self._wait(name)
        torch.set_num_threads(threads)  # the setting belongs to a thread
        try:
            loop()
            synchronise(self._device)
        except Exception as failed:  # the other loop must still get its turn
            self.failed[name] = failed
        finally:
            self.ending[name] = time.perf_counter() - self._began
            self._pass_on(name, leave=True)

    def _wait(self, name: str) -> None:
        with self._turn:
            self._turn.wait_for(lambda: self._now == name)
        self._began = time.perf_counter()

    def _pass_on(self, name: str, leave: bool = False) -> None:
        with self._turn:
            at = self._waiting.index(name)
            self._now = self._waiting[(at + 1) % len(self._waiting)]
            if leave:
                self._waiting.remove(name)
            self._turn.notify_all()
