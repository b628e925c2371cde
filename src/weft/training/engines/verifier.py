"""What is known of an engine in a run: which shapes were verified, how well, and what it cost."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from weft.training.engines.verify import Difference, Disagreement, Reading, Tolerance, as_number, compared

SECONDS = 3.0
"""What verifying may cost in any run."""

SHARE = 0.02
"""What it may cost of a long run."""


class Verifier:
    """Compares readings of an engine with a reference, and keeps the record of a run.

    Args:
        bf16: whether steps run in bf16.
        steps: the steps of the run.

    Attributes:
        tolerance: what is allowed from now on.
        shapes: how many shapes were verified.
        unverified: how many were not, for want of time, of memory, or of a finite reference.
        seconds: what it has cost; compiling and capturing, which the run needs anyway, left out.
        rounding: the error of plain autocast; None in float32, or where nothing asked for it: it is measured
            when the first difference is beyond the tolerance of bf16.
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
        """The seconds that may be spent: 3, or 2 % of the run's time as it looks now."""
        run = self._pace / self._paced * self._steps if self._paced else 0.0
        return max(SECONDS, SHARE * run)

    @property
    def affordable(self) -> bool:
        """Whether one more shape may be verified."""
        return self.seconds < self.allowed

    def stepped(self, new: bool) -> None:
        """A step has ended.

        Args:
            new: whether it met a new shape. What it took is then no measure of the steps to come.
        """
        now = time.monotonic()
        if self._last is not None and not new:
            self._pace += now - self._last
            self._paced += 1
        self._last = now

    @contextmanager
    def timed(self, device: torch.device) -> Iterator[None]:
        """Inside, time is spent on verifying."""
        began = _now(device)
        try:
            yield
        finally:
            self.seconds += _now(device) - began

    def check(self, shape: tuple[int, int], found: Reading, expected: Reading) -> None:
        """Compare a shape's reading with that of the same model uncompiled.

        Args:
            shape: its rows and tokens.
            found: by the engine.
            expected: uncompiled.

        Raises:
            Disagreement: if they differ by more than is allowed.
        """
        off = compared(found, expected)
        if off is None:
            self.unverified += 1
            return
        self._judge(shape, off, False)
        self.shapes += 1

    def check_patches(
        self, shape: tuple[int, int], found: Reading, expected: Reading, whole: Callable[[], Reading] | None
    ) -> None:
        """Compare the patched model with the plain one, both uncompiled and without dropout.

        Args:
            shape: the batch's rows and tokens.
            found: of the patched model.
            expected: of the plain one.
            whole: reads the plain one in float32, where steps run in bf16: it widens the tolerance. A pass in
                float32 is the slowest of all, so it runs only if something differs by more than usual.

        Raises:
            Disagreement: if they differ by more than is allowed.
        """
        if whole is not None:
            self._measure = lambda: self._widen(expected, whole())
        self.patches = compared(found, expected)
        if self.patches is not None:
            self._judge(shape, self.patches, True)

    def skip(self) -> None:
        """A shape is used without having been verified."""
        self.unverified += 1

    def report(self) -> dict[str, Any]:
        """What the log says: shapes, the largest differences, seconds."""
        told: dict[str, Any] = {
            "shapes": self.shapes,
            "unverified": self.unverified,
            "loss": as_number(self._loss),
            "gradient": as_number(self._gradient),
            "seconds": round(self.seconds, 2),
        }
        if self.patches is not None:
            told["patches"] = self.patches.as_dict()
        if self.rounding is not None:
            told["rounding"] = self.rounding.as_dict()
        return told

    def _judge(self, shape: tuple[int, int], off: Difference, patches: bool) -> None:
        if not patches:
            self._loss, self._gradient = max(self._loss, off.loss), max(self._gradient, off.gradient)
        if not self._allows(off) and self._measure is not None:
            measure, self._measure = self._measure, None
            measure()
        if not self._allows(off):
            raise Disagreement(shape, off, self.tolerance, patches)

    def _allows(self, off: Difference) -> bool:
        # written so that what is no number fails
        return off.loss <= self.tolerance.loss and off.gradient <= self.tolerance.gradient

    def _widen(self, expected: Reading, whole: Reading) -> None:
        """By the error of plain autocast beside float32."""
        self.rounding = compared(expected, whole)
        if self.rounding is not None and expected.finite:
            self.tolerance = Tolerance.of(self.bf16).widened(self.rounding)


def _now(device: torch.device) -> float:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.monotonic()
