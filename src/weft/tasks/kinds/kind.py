"""What every kind of task answers for. No torch is imported to say what a task is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from torch import Tensor


class Kind(ABC):
    """One kind of task: the size of its head, its labels as a tensor, its loss.

    Attributes:
        name: the name it is registered under.
        has_range: whether its labels are numbers, which may have a range.
        metrics: those that do unless a task says otherwise; the first is the score.
    """

    name: ClassVar[str]
    has_range: ClassVar[bool] = False
    metrics: ClassVar[tuple[str, ...]]

    @abstractmethod
    def size(self, task: str, labels: Sequence[str], size: int | None) -> int:
        """The number of outputs of a task's head, or an error that names the task."""

    @abstractmethod
    def metrics_for(self, size: int) -> tuple[str, ...]:
        """The metrics that can judge a task of this size."""

    def label_names(self, labels: tuple[str, ...], size: int) -> tuple[str, ...]:
        """The names of the labels, where the kind has any."""
        return labels

    @abstractmethod
    def parse(self, values: Sequence[object], labels: Sequence[str]) -> object:
        """A label from the values of its columns in a file.

        Args:
            values: one value, or one for each output.
            labels: the task's label names.

        Raises:
            ValueError: with what was expected, as words that may follow "found …; expected".
        """

    @abstractmethod
    def check(self, value: Any, size: int) -> None:
        """Refuse a label that a task of this size cannot have, by a ValueError with what was expected."""

    @abstractmethod
    def collate(self, values: Sequence[Any], of_this_kind: Sequence[bool]) -> Tensor:
        """The labels [E, …] of a batch; an example of another kind gets any valid stand-in."""

    @abstractmethod
    def decode(self, logits: NDArray[np.float32]) -> NDArray[Any]:
        """The answers that metrics compare with labels, from the logits [N, C] of one task."""

    @abstractmethod
    def answer(self, logits: NDArray[np.float32], labels: Sequence[str]) -> dict[str, Any]:
        """One example's answer for a user, from its logits [C]: JSON-able."""

    @abstractmethod
    def loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        """The loss of each example, [E], from logits [E, C] and the labels of `collate`.

        It must be finite for an example of another kind or size too: such a one has weight 0.
        """
