"""Telemetry of gradient conflicts: cosines of pairs of tasks, over the steps between two evaluations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Any

from weft.training.run.component import Component, LogEvent

if TYPE_CHECKING:
    from torch import Tensor

    from weft.training.conflict.gradients import TaskGradients
    from weft.training.step.gradients import StepGradients


class Telemetry:
    """The mean cosine of each pair of tasks, and the fraction of cosines below zero.

    Cosines are computed over shared parameters. A pair counts in a step if both tasks are present, share a
    parameter that trains and have a gradient there.

    Args:
        names: the names of the tasks, [T].
    """

    def __init__(self, names: Sequence[str]) -> None:
        self._names = tuple(names)
        self._steps = 0
        self._conflicting = 0
        self._pairs: dict[tuple[int, int], tuple[float, int]] = {}

    def add(self, gramian: Tensor, tasks: Sequence[int], related: Tensor) -> None:
        """Count a step.

        Args:
            gramian: the products of the present tasks' gradients over shared parameters, [P, P].
            tasks: the tasks' numbers in ascending order, [P].
            related: which pairs share a parameter that trains, [P, P].
        """
        products, shares = gramian.tolist(), related.tolist()
        counted = False
        for i, j in combinations(range(len(tasks)), 2):
            # as two roots: the product of two small squares may underflow
            length = products[i][i] ** 0.5 * products[j][j] ** 0.5
            if not shares[i][j] or length == 0:
                continue
            cosine = max(-1.0, min(1.0, products[i][j] / length))
            total, count = self._pairs.get((tasks[i], tasks[j]), (0.0, 0))
            self._pairs[tasks[i], tasks[j]] = (total + cosine, count + 1)
            self._conflicting += cosine < 0
            counted = True
        self._steps += counted

    def window(self) -> dict[str, Any]:
        """The statistics of the steps since the last call, for the log; a new window begins.

        Returns:
            `steps`, the number of steps with a pair; `cosine`, {"a|b": mean} in the order of the tasks; and
            `conflicting`, the fraction of cosines below zero, None without any.
        """
        pairs = sum(count for _, count in self._pairs.values())
        cosine = {
            f"{self._names[i]}|{self._names[j]}": total / count
            for (i, j), (total, count) in sorted(self._pairs.items())
        }
        fields = {
            "steps": self._steps,
            "cosine": cosine,
            "conflicting": self._conflicting / pairs if pairs else None,
        }
        self._steps, self._conflicting, self._pairs = 0, 0, {}
        return fields

    def state(self) -> dict[str, Any]:
        """The window so far, JSON-serializable."""
        pairs = [[i, j, total, count] for (i, j), (total, count) in sorted(self._pairs.items())]
        return {"steps": self._steps, "conflicting": self._conflicting, "pairs": pairs}

    def load(self, state: dict[str, Any]) -> None:
        """Continue a window."""
        self._steps, self._conflicting = state["steps"], state["conflicting"]
        self._pairs = {(i, j): (total, count) for i, j, total, count in state["pairs"]}


class GradientConflict(Component):
    """The component of `train.conflict`: keeps the merging method's state and logs the cosines.

    Args:
        gradients: computes the gradients of a step, and merges those of its tasks.
    """

    name = "conflict"

    def __init__(self, gradients: StepGradients) -> None:
        self._gradients = gradients

    @property
    def merged(self) -> TaskGradients:
        """The tasks' gradients; each phase has a new object."""
        assert self._gradients.merged is not None
        return self._gradients.merged

    def log_fields(self, event: LogEvent) -> dict[str, Any]:
        """See `Component`."""
        return {"conflict": self.merged.telemetry.window()} if event == "evaluation" else {}

    def state(self) -> dict[str, Any]:
        """See `Component`."""
        return self.merged.state()

    def load_state(self, state: Mapping[str, Any]) -> None:
        """See `Component`."""
        self.merged.load(dict(state))

    def without_state(self, step: int) -> None:
        """See `Component`: with an older checkpoint, which has no such state, it begins empty."""
