"""The settings of L0 gates, which find ranks during training (MORRIS, section 3.4)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, Self

from pydantic import (
    BeforeValidator,
    ConfigDict,
    Field,
    NonNegativeFloat,
    PositiveFloat,
    PositiveInt,
    model_validator,
)

from weft.settings import Settings, SettingsError

DECIDED = 10.0
"""|α| of a gate that is permanently open or shut (Algorithm 1)."""


class L0(Settings):
    """Gates on the components of low-rank updates, which a penalty closes (Louizos et al., 2018).

    Phase one trains `steps` steps with random gates z and the penalty. Then `threshold` decides whether a
    gate is permanently open or shut, and the run's `train.steps` follow with a new optimizer and schedule.
    What the paper leaves out follows the code that its notation is from (DiffPruning): stretch, start,
    learning rate.
    """

    what = "l0"

    model_config = ConfigDict(allow_inf_nan=False)

    penalty: NonNegativeFloat = Field(5e-6, description="λ, the weight of the sum of P(z ≠ 0) over the gates")
    steps: PositiveInt = Field(
        10_000, le=100_000_000, description="steps of phase one, which precedes train.steps"
    )
    lr: PositiveFloat | None = Field(
        None, description="learning rate of the weights in phase one; default train.lr"
    )
    gate_lr: PositiveFloat = Field(0.1, description="learning rate of the gates, constant")
    start: float = Field(
        5.0, gt=-DECIDED, lt=DECIDED, description="initial value of α: gates are open at first"
    )
    threshold: float = Field(
        0.5, description="after phase one, gates with α below it are shut, the others open"
    )
    low: float = Field(-1.5, lt=0, description="l, the lower end of the interval that s is stretched to")
    high: float = Field(1.5, gt=1, description="r, the upper end of that interval")
    temperature: PositiveFloat = Field(1.0, description="β of the concrete distribution")

    @model_validator(mode="after")
    def _gates_can_be_decided(self) -> Self:
        """Check that a decided gate is exactly 0 or 1: σ(∓10), stretched, must reach beyond both ends."""
        shut = 1 / (1 + math.exp(DECIDED))
        width = self.high - self.low
        if shut * width + self.low >= 0 or (1 - shut) * width + self.low <= 1:
            raise ValueError(
                f"low {self.low} and high {self.high} are too near to 0 and 1 for their distance: "
                "a gate could be neither shut nor opened; expected such as -1.5 and 1.5, or -0.1 and 1.1"
            )
        return self


def _l0(value: object) -> object:
    if value is False:
        return None
    if value is True:
        return L0()
    if isinstance(value, Mapping):
        try:
            return L0(**{str(k): v for k, v in value.items()})
        except SettingsError as wrong:
            raise ValueError("; ".join(f"{key}: {text}" for key, text in wrong.mistakes)) from None
    if value is None or isinstance(value, L0):
        return value
    raise ValueError(f"expected true, false, or settings such as {{penalty: 5e-6}}; found {value!r}")


L0Setting = Annotated[L0 | None, BeforeValidator(_l0)]

L0_ABOUT = "true, false, or {penalty, steps, lr, gate_lr, …}: find the ranks by L0 gates"
