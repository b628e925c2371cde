"""`similarity`: how similar two separately encoded texts are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from weft.errors import WeftError, did_you_mean
from weft.tasks.kinds.regress import Regress

if TYPE_CHECKING:
    from weft.tasks.kinds.kind import Inputs
    from weft.tasks.task import Task

COMPARISONS = ("cosine", "head")


class Similarity(Regress):
    """The cosine of the two texts' vectors, or a head on [u; v].

    `cosine`: ℓ = (cos(u, v) − y)², y the label scaled to 0 … 1 by the task's range: with (0, 5) that is
    (cos(u, v) − y/5)². It has no parameters. `head`: ℓ = (W·[u; v] + b − y)², where y is the
    label itself with `targets: raw`.
    """

    name = "similarity"
    pipeline_tag = "sentence-similarity"
    options = ("apart", "compare", "targets")
    texts = (2, 2)

    def size(self, task: str, labels: Sequence[str], size: int | None) -> int:
        """One number."""
        if size not in (None, 1):
            raise WeftError(f"task {task!r}: similarity has one output; found size {size}")
        return super().size(task, labels, size)

    def complete(self, task: Task) -> None:
        """Set `apart`, and `compare` to its default, `cosine`."""
        task._set("apart", True)
        task._set("compare", task.compare or COMPARISONS[0])
        if task.compare not in COMPARISONS:
            raise WeftError(
                f"task {task.name!r}: compare {task.compare!r}; "
                f"{did_you_mean(str(task.compare), COMPARISONS)}"
            )
        if task.compare == "cosine" and task.targets is not None:
            raise WeftError(
                f"task {task.name!r}: targets: {task.targets}: a cosine is compared with labels scaled to 0 "
                "to 1; leave it out, or set compare: head"
            )

    def fits(self, label: Any, task: Task, inputs: Inputs) -> None:
        """Accept numbers in the task's range or, without one, in that of a cosine."""
        super().fits(label, task, inputs)
        if task.range is None and task.compare == "cosine" and not -1 <= label <= 1:
            raise ValueError("a number from −1 to 1, as a cosine is, or a task with a range such as [0, 5]")

    def reads_of(self, task: Task) -> str:
        """`cosine` [R, 1], or `pair` [R, 2d]."""
        return "cosine" if task.compare == "cosine" else "pair"
