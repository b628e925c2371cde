"""Comparison of an engine with the reference: the losses and gradients of one batch.

The losses of a batch are compared as a vector, the gradients by their norm per owner:

    ‖a − b‖ / ‖b‖      and      max over owners o of |‖a_o‖ − ‖b_o‖| / max(‖b_o‖, 1e-3 · max_o ‖b_o‖),

where a is the engine's result and b the reference. An owner's adapters, heads and encoder are compared
separately: a head has a far larger gradient than an adapter that begins at zero, and would hide a missing
gradient of the adapter.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from weft.acceleration.difference import difference
from weft.training.engines.engine import EngineFailed

if TYPE_CHECKING:
    from weft.model.ownership import Owned

SMALL_OWNER = 1e-3
"""The error of a gradient below this fraction of the largest one is taken relative to that fraction: such a
gradient may be rounding error."""

SMALL_LOSS = 1e-2
"""The error of losses below this on average is taken relative to it: a loss near zero is a small difference
of large logits, and its relative error means nothing."""

SLACK = 4.0
"""An engine may differ by this many times the rounding error of bf16."""

MOST = 0.5
"""The largest tolerance, however large the rounding error is: a missing gradient differs by 1."""


@dataclass(frozen=True)
class Difference:
    """The difference between two readings of a batch.

    Attributes:
        loss: the relative difference of the losses.
        gradient: the largest relative difference of a gradient norm; 0 without gradients.
        task: the task of the example that differs most.
        owner: the owner of the gradient that differs most.
    """

    loss: float
    gradient: float = 0.0
    task: str = ""
    owner: str = ""

    def as_dict(self) -> dict[str, float | None]:
        """The two numbers, for the log."""
        return {"loss": as_number(self.loss), "gradient": as_number(self.gradient)}


@dataclass(frozen=True)
class Tolerance:
    """The largest relative differences between an engine and the reference that are accepted.

    In float32 both compute the same sums in a different order: losses agree to about 1e-6 in shallow encoders
    and 1e-5 in deep ones, gradients to about ten times that. Tolerances of 1e-3 and 1e-2 leave room for
    ill-conditioned models but not for a missing term. A bf16 number has 8 bits, and a compiler rounds fewer
    values than plain code: a difference of one percent is normal. Some models amplify it: with plain
    autocast, PALs far from their initial values differ from float32 by 6 to 25 percent. In bf16, if a
    difference exceeds the tolerance, the error of plain autocast, ρ, is therefore measured (`widened`), and
    4ρ is accepted: two results that are each off by ρ differ by 2ρ, and a later batch may be worse than the
    first. More than 0.5 is never accepted.

    Attributes:
        loss: for the vector of losses.
        gradient: for an owner's gradient norm.
    """

    loss: float
    gradient: float

    @classmethod
    def of(cls, bf16: bool) -> Tolerance:
        """The tolerance of a precision, before ρ is measured."""
        return cls(5e-2, 1e-1) if bf16 else cls(1e-3, 1e-2)

    def widened(self, rounding: Difference) -> Tolerance:
        """The tolerance with the error of plain autocast, ρ: max(tolerance, 4ρ), at most 0.5."""
        wide = (min(MOST, SLACK * error) for error in (rounding.loss, rounding.gradient))
        return Tolerance(*map(max, (self.loss, self.gradient), wide))


@dataclass(frozen=True, eq=False)
class Reading:
    """The result of a pass over a batch.

    Attributes:
        losses: the losses of the examples that count, or the measures of candidates, [E] float64 on the host.
        tasks: the name of each example's task, [E].
        norms: the norm of each owner's gradient; empty without a backward pass.
    """

    losses: Tensor
    tasks: Sequence[str]
    norms: Mapping[str, float] = field(default_factory=dict)

    @property
    def finite(self) -> bool:
        """Whether all losses and norms are finite."""
        return bool(self.losses.isfinite().all()) and all(map(math.isfinite, self.norms.values()))


class Disagreement(EngineFailed):
    """An engine's results differ from the reference by more than the tolerance.

    Attributes:
        shape: the rows and tokens of the batch.
        difference: the difference.
        patches: whether the patched model differs from the plain one; else the compiled from the uncompiled.
    """

    def __init__(
        self, shape: tuple[int, int], difference: Difference, tolerance: Tolerance, patches: bool
    ) -> None:
        self.shape, self.difference, self.patches = shape, difference, patches
        subject = "the patched model" if patches else "the compiled model"
        reference = "the plain one" if patches else "the same model uncompiled"
        reasons = []
        if not difference.loss <= tolerance.loss:
            size = f"the losses differ by {difference.loss:.2g} (at most {tolerance.loss:.2g} is allowed)"
            reasons.append(f"{size}, most for task {difference.task!r}")
        if not difference.gradient <= tolerance.gradient:
            size = f"the gradients of {difference.owner} differ by {difference.gradient:.2g}"
            reasons.append(f"{size} (at most {tolerance.gradient:.2g} is allowed)")
        rows, length = shape
        super().__init__(
            f"{subject} disagrees with {reference} on {rows} rows of {length} tokens: {'; '.join(reasons)}"
        )


def compared(actual: Reading, expected: Reading) -> Difference | None:
    """The difference between a reading and the reference; None if the reference is not finite.

    In that case the run diverges with every engine, and the engine is not to blame.
    """
    if not expected.finite:
        return None
    loss = difference(actual.losses, expected.losses, SMALL_LOSS)
    errors = (actual.losses - expected.losses).abs().nan_to_num(nan=math.inf)
    task = actual.tasks[int(errors.argmax())] if len(actual.tasks) else ""
    floor = SMALL_OWNER * max(expected.norms.values(), default=0.0)
    worst, owner = 0.0, ""
    for name, norm in expected.norms.items():
        error, size = abs(actual.norms[name] - norm), max(norm, floor)
        if not math.isfinite(error):
            relative = math.inf
        elif size > 0:
            relative = error / size
        else:
            relative = 0.0 if error == 0 else math.inf
        if relative > worst:
            worst, owner = relative, name
    return Difference(loss, worst, task, owner)


@torch.no_grad()
def owner_norms(
    items: Iterable[Owned], gradient_of: Callable[[nn.Parameter], Tensor | None]
) -> dict[str, float]:
    """The norm of each owner's gradient, separately for its adapters, heads and encoder.

    Args:
        items: what trains, one entry for each owner's slice of a parameter.
        gradient_of: returns the gradient of a whole parameter; None counts as zero.

    Returns:
        `encoder`, `shared adapters`, `task:NAME heads`, … → the norm.
    """
    owners: list[str] = []
    slices: list[Tensor] = []
    squares: dict[str, float] = {}
    for item in items:
        owner = item.owner if item.owner == item.part else f"{item.owner} {item.part}"
        squares.setdefault(owner, 0.0)
        gradient = gradient_of(item.parameter)
        if gradient is not None:
            owners.append(owner)
            slices.append(gradient if item.slot is None else gradient[item.slot])
    if slices:
        norms = torch.stack([norm.double() for norm in torch._foreach_norm(slices)]).cpu()
        for owner, norm in zip(owners, norms.tolist(), strict=True):
            squares[owner] += norm * norm
    return {owner: math.sqrt(square) for owner, square in squares.items()}


def as_number(value: float) -> float | None:
    """A number rounded to three digits, for the log; None if it is not finite, which JSON cannot express."""
    return float(f"{value:.3g}") if math.isfinite(value) else None
