"""Data usage: which examples a run has trained on, and which tasks had none for long."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from weft.errors import WeftError, train_key
from weft.training.run.component import Component, LogEvent, StepDone

if TYPE_CHECKING:
    from weft.utils.counter_rng import Ints


KEPT = 20
"""The number of finished epochs in a report, the last ones: a log line must not grow with the run."""


class Usage(Component):
    """The fraction of the data used, and each task's longest gap, in steps, without an example.

    The fraction counts distinct examples that received a gradient: of each task and of all tasks together,
    since the start and by epoch. Gaps include the present one and the one before a task's first example.

    A step costs O(B + T).

    Args:
        names: the names of the tasks, [T].
        sizes: the number of training examples of each, [T].
        starved: warn if a task has no example for more steps than this; None: never.
        epoch_steps: the steps of an epoch.
    """

    name = "usage"

    def __init__(
        self, names: Sequence[str], sizes: Sequence[int], starved: int | None, epoch_steps: int
    ) -> None:
        if epoch_steps < 1:
            raise WeftError(f"epoch_steps must be at least 1; found {epoch_steps}")
        self.names, self.sizes = list(names), np.array(sizes, np.int64)
        self.starved, self.epoch_steps = starved, epoch_steps
        self._first = np.cumsum(self.sizes) - self.sizes  # offset of each task's examples among all
        tasks, total = len(self.sizes), int(self.sizes.sum())
        self._ever, self._epoch = _Used(total, tasks), _Used(total, tasks)
        self._done = 0  # steps
        self._finished: list[dict[str, Any]] = []
        self._last = np.full(tasks, -1, np.int64)  # the step of each task's last example
        self._longest = np.zeros(tasks, np.int64)  # over gaps that have ended
        self._warned = np.zeros(tasks, bool)
        self._stopped = np.zeros(tasks, bool)
        self._since = np.zeros(tasks, np.int64)  # examples since the last line of losses in the log

    def without_state(self, step: int) -> None:
        """See `Component`: count from this step on; earlier steps are unknown."""
        self._done = step
        self._last[:] = step - 1

    def add(self, step: int, task: ArrayLike, index: ArrayLike) -> list[str]:
        """Count a step's examples; returns warnings about tasks without an example for too long.

        There is one warning per gap.

        Args:
            step: the number of the step, from 0; steps must be counted in order.
            task: the task of each real example, [E].
            index: the number of each example within its task, [E].
        """
        if step != self._done:
            raise WeftError(f"usage counts steps in order: expected step {self._done}, found {step}")
        tasks, which = np.asarray(task, np.int64), np.asarray(index, np.int64)
        self._since += np.bincount(tasks, minlength=len(self.sizes))
        places = np.unique(self._first[tasks] + which)
        owner = np.searchsorted(self._first, places, "right") - 1
        for used in (self._ever, self._epoch):
            used.add(places, owner)
        self._done = step + 1
        if self._done % self.epoch_steps == 0:
            number = self._done // self.epoch_steps
            self._finished = [*self._finished, {"number": number, **self._shares(self._epoch)}][-KEPT:]
            self._epoch = _Used(int(self.sizes.sum()), len(self.sizes))
        seen = np.unique(owner)
        self._longest[seen] = np.maximum(self._longest, self._gaps(step))[seen]
        self._last[seen] = step
        self._warned[seen] = False
        return self._warnings()

    def after_step(self, done: StepDone) -> None:
        """See `Component`."""
        step = done.step
        for warning in self.add(step.number, step.task[: step.real], step.index[: step.real]):
            self.run.say(f"warning: {warning}")

    def after_evaluation(self) -> None:
        """See `Component`: tasks may have been stopped."""
        for task in self.run.state.stopped:
            if not self._stopped[task]:
                self.stopped(task)

    def log_fields(self, event: LogEvent) -> dict[str, Any]:
        """See `Component`. A line of losses has the examples of each task since the one before."""
        if event == "evaluation":
            return {"usage": self.report()}
        if event == "step":
            since, self._since = self._since.tolist(), np.zeros_like(self._since)
            return {"examples": dict(zip(self.names, since, strict=True))}
        return {"data_used": self.report()["share"]} if event == "end" else {}

    def stopped(self, task: int) -> None:
        """Count no gaps for a task that is no longer sampled; its present gap ends here."""
        self._longest[task] = max(self._longest[task], self._gaps(self._done)[task])
        self._stopped[task] = True

    def report(self) -> dict[str, Any]:
        """The usage so far, JSON-serializable.

        `share` and `by_task` are fractions since the start; `epoch` has the same for the present epoch, with
        its number from 1 and its steps so far; `epochs` for the last KEPT finished epochs; `longest` is the
        longest gap of each task, in steps.
        """
        done = {"number": self._done // self.epoch_steps + 1, "steps": self._done % self.epoch_steps}
        longest = np.maximum(self._longest, self._gaps(self._done))
        return {
            **self._shares(self._ever),
            "epoch": {**done, **self._shares(self._epoch)},
            "epochs": list(self._finished),
            "longest": dict(zip(self.names, longest.tolist(), strict=True)),
        }

    def state(self) -> dict[str, Any]:
        """See `Component`. `ever` and `epoch`: the examples used, one bit per example, [⌈N/8⌉] of uint8."""
        import torch

        used = {"ever": self._ever, "epoch": self._epoch}
        return {
            **{name: torch.from_numpy(np.packbits(examples.flags)) for name, examples in used.items()},
            "done": self._done,
            "epoch_steps": self.epoch_steps,
            "finished": list(self._finished),
            "last": self._last.tolist(),
            "longest": self._longest.tolist(),
            "warned": self._warned.tolist(),
            "stopped": self._stopped.tolist(),
            "since": self._since.tolist(),
        }

    def load_state(self, state: Mapping[str, Any]) -> None:
        """See `Component`; the tasks and their sizes must be unchanged."""
        total, tasks = int(self.sizes.sum()), len(self.sizes)
        bitmaps = [state[name].numpy() for name in ("ever", "epoch")]
        if (
            len(state["last"]) != tasks
            or state["epoch_steps"] != self.epoch_steps
            or any(len(bits) != -(-total // 8) for bits in bitmaps)
        ):
            raise WeftError(
                f"usage: expected {tasks} tasks, {total} examples and epochs of {self.epoch_steps} steps; "
                f"found {len(state['last'])} tasks, at most {8 * len(bitmaps[0])} examples and epochs of "
                f"{state['epoch_steps']} steps: resume with the data that the run was started with"
            )
        for used, bits in zip((self._ever, self._epoch), bitmaps, strict=True):
            used.flags = np.unpackbits(bits, count=total).astype(bool)
            used.counts = np.add.reduceat(used.flags, self._first, dtype=np.int64)
        self._done, self._finished = int(state["done"]), list(state["finished"])
        self._last, self._longest = (np.array(state[name], np.int64) for name in ("last", "longest"))
        # checkpoints of earlier versions have no counts since the last line
        self._since = np.array(state.get("since", [0] * tasks), np.int64)
        self._warned, self._stopped = (np.array(state[name], bool) for name in ("warned", "stopped"))

    def _shares(self, used: _Used) -> dict[str, Any]:
        """The fraction of all examples that is used, and of each task's."""
        by_task = (used.counts / self.sizes).tolist()
        share = float(used.counts.sum() / self.sizes.sum())
        return {"share": share, "by_task": dict(zip(self.names, by_task, strict=True))}

    def _gaps(self, step: int) -> Ints:
        """The number of steps before `step` since each task's last example, [T]; 0 for stopped tasks."""
        return np.where(self._stopped, 0, step - 1 - self._last)

    def _warnings(self) -> list[str]:
        if self.starved is None:
            return []
        gaps = self._gaps(self._done)
        starved = np.flatnonzero((gaps > self.starved) & ~self._warned)
        self._warned[starved] = True
        return [
            f"task {self.names[t]!r} has had no example for {gaps[t]} steps, up to step {self._done}; "
            f"{train_key('starved')} sets this limit, {train_key('sampler')} how tasks are sampled"
            for t in starved.tolist()
        ]


class _Used:
    """Which of all N examples were used, and how many of each task."""

    def __init__(self, total: int, tasks: int) -> None:
        self.flags = np.zeros(total, bool)
        self.counts = np.zeros(tasks, np.int64)

    def add(self, places: Ints, owner: Ints) -> None:
        """Mark distinct examples as used.

        Args:
            places: the numbers of the examples among all, [E].
            owner: the task of each, [E].
        """
        new = ~self.flags[places]
        self.flags[places] = True
        self.counts += np.bincount(owner[new], minlength=len(self.counts))
