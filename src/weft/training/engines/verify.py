"""Whether an engine computes what the model computes: losses and gradients of one batch, compared.

The losses of a batch are compared as a vector, the gradients by the norm of what each owner has:

    ‖a − b‖ / ‖b‖      and      max over owners o of |‖a_o‖ − ‖b_o‖| / max(‖b_o‖, 1e-3 · max_o ‖b_o‖),

a what the engine found and b the reference. An owner's adapters, heads and encoder are counted apart: a head
has a far larger gradient than an adapter that begins at zero, and would hide that the adapter was forgotten.
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
"""A gradient that is smaller than this share of the largest one is compared with that share: it may be
rounding alone."""

SMALL_LOSS = 1e-2
"""Losses smaller than this on average are compared with it: a loss near zero is a small difference of large
logits, and its relative error says nothing."""

SLACK = 4.0
"""How many times its own rounding error an engine may differ by in bf16."""

MOST = 0.5
"""What is allowed at the most, however badly a model rounds: a gradient that is missing differs by 1."""


@dataclass(frozen=True)
class Difference:
    """By how much two readings of a batch differ.

    Attributes:
        loss: of the losses, relative.
        gradient: of the gradient norm that differs most, relative; 0 where there are none.
        task: the task of the example that differs most.
        owner: whose gradient differs most.
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
    """By how much an engine may differ from the reference, relative.

    In float32 both compute the same sums in another order: losses agree to about 1e-6 in shallow encoders and
    1e-5 in deep ones, gradients to about ten times that, so that 1e-3 and 1e-2 leave room for ill-conditioned
    models and none for a forgotten term. In bf16 a number has 8 bits, and a compiler rounds fewer values than
    the plain code: a difference of a percent is normal. How much a model makes of it depends on the model:
    with plain autocast, PALs that were moved far from their start differ from float32 by 6 to 25 percent. So
    in bf16, once something differs by more, the error of plain autocast, ρ, is measured (`widened`), and four
    times that is allowed: two results that are each off by ρ differ by 2ρ, and a batch may be worse than the
    first one. More than 0.5 is never allowed.

    Attributes:
        loss: of the vector of losses.
        gradient: of an owner's gradient norm.
    """

    loss: float
    gradient: float

    @classmethod
    def of(cls, bf16: bool) -> Tolerance:
        """The tolerance of a precision, before anything was measured."""
        return cls(5e-2, 1e-1) if bf16 else cls(1e-3, 1e-2)

    def widened(self, rounding: Difference) -> Tolerance:
        """With the error of plain autocast, ρ: max(tolerance, 4ρ) of each, and 0.5 at the most."""
        wide = (min(MOST, SLACK * error) for error in (rounding.loss, rounding.gradient))
        return Tolerance(*map(max, (self.loss, self.gradient), wide))


@dataclass(frozen=True, eq=False)
class Reading:
    """What a pass over a batch gives.

    Attributes:
        losses: of the examples that count, or what was measured of candidates, [E] float64 on the host.
        tasks: the name of each example's task, [E].
        norms: the norm of each owner's gradient; none where there is no backward pass.
    """

    losses: Tensor
    tasks: Sequence[str]
    norms: Mapping[str, float] = field(default_factory=dict)

    @property
    def finite(self) -> bool:
        """Whether all of it is numbers."""
        return bool(self.losses.isfinite().all()) and all(map(math.isfinite, self.norms.values()))


class Disagreement(EngineFailed):
    """An engine computes something else than the model does.

    Attributes:
        shape: the rows and tokens of the batch.
        difference: by how much.
        patches: whether it is the patched model that differs from the plain one, compiled or not.
    """

    def __init__(
        self, shape: tuple[int, int], difference: Difference, tolerance: Tolerance, patches: bool
    ) -> None:
        self.shape, self.difference, self.patches = shape, difference, patches
        found = "the patched model" if patches else "the compiled model"
        other = "the plain one" if patches else "the same model uncompiled"
        told = []
        if not difference.loss <= tolerance.loss:
            which = f"the losses differ by {difference.loss:.2g} (at most {tolerance.loss:.2g} is allowed)"
            told.append(f"{which}, most for task {difference.task!r}")
        if not difference.gradient <= tolerance.gradient:
            which = f"the gradients of {difference.owner} differ by {difference.gradient:.2g}"
            told.append(f"{which} (at most {tolerance.gradient:.2g} is allowed)")
        rows, length = shape
        super().__init__(
            f"{found} disagrees with {other} on {rows} rows of {length} tokens: {'; '.join(told)}"
        )


def compared(found: Reading, expected: Reading) -> Difference | None:
    """By how much a reading differs from the reference; None if the reference itself is not finite.

    Then the run diverges, whoever computes it, and the engine is not to blame.
    """
    if not expected.finite:
        return None
    loss = difference(found.losses, expected.losses, SMALL_LOSS)
    apart = (found.losses - expected.losses).abs().nan_to_num(nan=math.inf)
    task = found.tasks[int(apart.argmax())] if len(found.tasks) else ""
    floor = SMALL_OWNER * max(expected.norms.values(), default=0.0)
    worst, owner = 0.0, ""
    for name, right in expected.norms.items():
        off, size = abs(found.norms[name] - right), max(right, floor)
        own = (
            math.inf if not math.isfinite(off) else off / size if size > 0 else 0.0 if off == 0 else math.inf
        )
        if own > worst:
            worst, owner = own, name
    return Difference(loss, worst, task, owner)


@torch.no_grad()
def owner_norms(
    items: Iterable[Owned], gradient_of: Callable[[nn.Parameter], Tensor | None]
) -> dict[str, float]:
    """The norm of each owner's gradient over its adapters, its heads and its encoder, as far as it has them.

    Args:
        items: what trains, one entry for each owner's part of a parameter.
        gradient_of: the gradient of a whole parameter; None counts as zero.

    Returns:
        `encoder`, `shared adapters`, `task:NAME heads`, … → the norm.
    """
    owners: list[str] = []
    parts: list[Tensor] = []
    found: dict[str, float] = {}
    for item in items:
        owner = item.owner if item.owner == item.part else f"{item.owner} {item.part}"
        found.setdefault(owner, 0.0)
        whole = gradient_of(item.parameter)
        if whole is not None:
            owners.append(owner)
            parts.append(whole if item.slot is None else whole[item.slot])
    if parts:
        norms = torch.stack([norm.double() for norm in torch._foreach_norm(parts)]).cpu()
        for owner, norm in zip(owners, norms.tolist(), strict=True):
            found[owner] += norm * norm
    return {owner: math.sqrt(square) for owner, square in found.items()}


def as_number(value: float) -> float | None:
    """Rounded to three digits, for the log; None of what is not finite, which JSON does not have."""
    return float(f"{value:.3g}") if math.isfinite(value) else None
