"""One captured forward pass: its memory, its replay, its output."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from torch import Tensor

if TYPE_CHECKING:
    from weft.model.output import Output


@dataclass(eq=False)
class CapturedPass:
    """A captured forward pass.

    Attributes:
        memory: the buffer on the device that inputs are copied to.
        run: replays the pass.
        output: the model's output; overwritten by the next pass.
        logits: the logits of all head shapes in float32, concatenated, [n].
    """

    memory: Tensor
    run: Callable[[], None]
    output: Output
    logits: Tensor


class UncapturedPass(CapturedPass):
    """A pass that is not captured, as on a CPU; it gives a new output every time."""

    def __init__(self, memory: Tensor, run: Callable[..., None], kept: dict[str, Any]) -> None:
        self.memory, self.run, self._kept = memory, run, kept

    @property
    def output(self) -> Output:  # type: ignore[override]
        """The output of the last run."""
        output: Output = self._kept["output"]
        return output

    @property
    def logits(self) -> Tensor:  # type: ignore[override]
        """The logits of the last run."""
        logits: Tensor = self._kept["logits"]
        return logits
