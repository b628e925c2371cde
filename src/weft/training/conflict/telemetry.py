"""How much the tasks' gradients agree: cosines of pairs, over the steps between two evaluations."""

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
    """The mean cosine of each pair of tasks, and the share of those below zero.

    Cosines are of what tasks share, the tasks' own parameters left out. A pair counts in a step where both
    tasks are present, share something that trains and have a gradient there.

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
            gramian: the products of the present tasks' gradients over what is shared, [P, P].
            tasks: their numbers in ascending order, [P].
            related: which pairs share something that trains, [P, P].
        """
        products, shares = gramian.tolist(), related.tolist()
        counted = False
        for i, j in combinations(range(len(tasks)), 2):
            # as two roots: the product of two small squares may be nothing
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
        """What the steps since the last call said, for the log; a new window begins.

        Returns:
            `steps` with a pair, `cosine` {"a|b": mean} in the order of the tasks, and `conflicting`, the
            share of all pairs and steps with a cosine below zero; None where there was none.
        """
        pairs = sum(count for _, count in self._pairs.values())
        cosine = {
            f"{self._names[i]}|{self._names[j]}": total / count
            for (i, j), (total, count) in sorted(self._pairs.items())
        }
        told = {
            "steps": self._steps,
            "cosine": cosine,
            "conflicting": self._conflicting / pairs if pairs else None,
        }
        self._steps, self._conflicting, self._pairs = 0, 0, {}
        return told

    def state(self) -> dict[str, Any]:
        """The window so far, fit for JSON."""
        pairs = [[i, j, total, count] for (i, j), (total, count) in sorted(self._pairs.items())]
        return {"steps": self._steps, "conflicting": self._conflicting, "pairs": pairs}

    def load(self, state: dict[str, Any]) -> None:
        """Go on with a window."""
        self._steps, self._conflicting = state["steps"], state["conflicting"]
        self._pairs = {(i, j): (total, count) for i, j, total, count in state["pairs"]}


class GradientConflict(Component):
    """What a run with `train.conflict` remembers and logs: the merging method's state, and the cosines.

    Args:
        gradients: what computes the gradients of a step, and merges those of its tasks.
    """

    name = "conflict"

    def __init__(self, gradients: StepGradients) -> None:
        self._gradients = gradients

    @property
    def merged(self) -> TaskGradients:
        """The tasks' gradients: a new object where a phase begins."""
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
        """See `Component`: a checkpoint from before it was kept begins anew."""
