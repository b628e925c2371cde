"""The verification record of a run: which shapes were compared, how much they differ, and the time spent."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from weft.training.engines.verify import Difference, Disagreement, Reading, Tolerance, as_number, compared

SECONDS = 3.0
"""The seconds that verification may take in any run."""

SHARE = 0.02
"""The fraction of a long run's time that verification may take."""


class Verifier:
    """Compares readings of an engine with a reference, and keeps the record of a run.

    Args:
        bf16: whether steps run in bf16.
        steps: the steps of the run.

    Attributes:
        tolerance: the tolerance from now on.
        shapes: the number of verified shapes.
        unverified: the number of shapes that were not verified, because time, memory or a finite reference
            was missing.
        seconds: the time spent, without compiling and capturing, which the run needs anyway.
        rounding: the error of plain autocast; None until measured. It is measured in bf16 when a difference
            first exceeds the tolerance.
        patches: the difference between the patched and the plain model; None until compared.
    """

    def __init__(self, bf16: bool, steps: int) -> None:
        self.bf16, self._steps = bf16, steps
        self.tolerance = Tolerance.of(bf16)
        self.shapes = self.unverified = 0
        self.seconds = 0.0
        self.rounding: Difference | None = None
        self.patches: Difference | None = None
        self._loss = self._gradient = 0.0
        self._pace = 0.0
        self._paced = 0
        self._last: float | None = None
        self._measure: Callable[[], None] | None = None

    @property
    def allowed(self) -> float:
        """The seconds that may be spent: 3, or 2 % of the run's expected time if that is more."""
        run = self._pace / self._paced * self._steps if self._paced else 0.0
        return max(SECONDS, SHARE * run)

    @property
    def affordable(self) -> bool:
        """Whether one more shape may be verified."""
        return self.seconds < self.allowed

    def stepped(self, new: bool) -> None:
        """Count a step.

        Args:
            new: whether it had a new shape. Its time then does not predict that of later steps.
        """
        now = time.monotonic()
        if self._last is not None and not new:
            self._pace += now - self._last
            self._paced += 1
        self._last = now

    @contextmanager
    def timed(self, device: torch.device) -> Iterator[None]:
        """Count the time spent inside as verification."""
        began = _now(device)
        try:
            yield
        finally:
            self.seconds += _now(device) - began

    def check(self, shape: tuple[int, int], actual: Reading, expected: Reading) -> None:
        """Compare a shape's reading with that of the same model uncompiled.

        Args:
            shape: its rows and tokens.
            actual: the engine's reading.
            expected: the uncompiled model's reading.

        Raises:
            Disagreement: if they differ by more than the tolerance.
        """
        difference = compared(actual, expected)
        if difference is None:
            self.unverified += 1
            return
        self._judge(shape, difference, False)
        self.shapes += 1

    def check_patches(
        self,
        shape: tuple[int, int],
        actual: Reading,
        expected: Reading,
        read_float32: Callable[[], Reading] | None,
    ) -> None:
        """Compare the patched model with the plain one, both uncompiled and without dropout.

        Args:
            shape: the batch's rows and tokens.
            actual: the patched model's reading.
            expected: the plain model's reading.
            read_float32: reads the plain model in float32, if steps run in bf16, to widen the tolerance. A
                pass in float32 is slow, so it runs only if a difference exceeds the tolerance.

        Raises:
            Disagreement: if they differ by more than the tolerance.
        """
        if read_float32 is not None:
            self._measure = lambda: self._widen(expected, read_float32())
        self.patches = compared(actual, expected)
        if self.patches is not None:
            self._judge(shape, self.patches, True)

    def skip(self) -> None:
        """Count a shape that is used without verification."""
        self.unverified += 1

    def report(self) -> dict[str, Any]:
        """The fields for the log: shapes, the largest differences, seconds."""
        fields: dict[str, Any] = {
            "shapes": self.shapes,
            "unverified": self.unverified,
            "loss": as_number(self._loss),
            "gradient": as_number(self._gradient),
            "seconds": round(self.seconds, 2),
        }
        if self.patches is not None:
            fields["patches"] = self.patches.as_dict()
        if self.rounding is not None:
            fields["rounding"] = self.rounding.as_dict()
        return fields

    def _judge(self, shape: tuple[int, int], difference: Difference, patches: bool) -> None:
        if not patches:
            self._loss = max(self._loss, difference.loss)
            self._gradient = max(self._gradient, difference.gradient)
        if not self._allows(difference) and self._measure is not None:
            measure, self._measure = self._measure, None
            measure()
        if not self._allows(difference):
            raise Disagreement(shape, difference, self.tolerance, patches)

    def _allows(self, difference: Difference) -> bool:
        # with this comparison nan is refused
        return difference.loss <= self.tolerance.loss and difference.gradient <= self.tolerance.gradient

    def _widen(self, expected: Reading, float32: Reading) -> None:
        """Widen the tolerance by the error of plain autocast relative to float32."""
        self.rounding = compared(expected, float32)
        if self.rounding is not None and expected.finite:
            self.tolerance = Tolerance.of(self.bf16).widened(self.rounding)


def _now(device: torch.device) -> float:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.monotonic()
