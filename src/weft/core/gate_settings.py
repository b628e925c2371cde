"""The settings of L0 gates: how ranks are found in training (MORRIS, section 3.4)."""

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
"""|α| of a gate that is opened or shut for good (Algorithm 1)."""


class L0(Settings):
    """Gates on the components of low-rank updates, trained away by a penalty (Louizos et al., 2018).

    Phase one trains `steps` steps with random gates z and the penalty; then every gate is opened or shut for
    good by `threshold`, and the run's own `train.steps` follow with a new optimizer and schedule. What the
    paper leaves out follows the code its notation is from (DiffPruning): stretch, start, learning rate.
    """

    what = "l0"

    model_config = ConfigDict(allow_inf_nan=False)

    penalty: NonNegativeFloat = Field(5e-6, description="λ, on the sum of P(z ≠ 0) over the gates")
    steps: PositiveInt = Field(10_000, description="of phase one, which comes before train.steps")
    lr: PositiveFloat | None = Field(None, description="of the weights in phase one; default train.lr")
    gate_lr: PositiveFloat = Field(0.1, description="of the gates, constant")
    start: float = Field(5.0, gt=-DECIDED, lt=DECIDED, description="α at the start: gates begin open")
    threshold: float = Field(0.5, description="after phase one, gates with α below are shut, others open")
    low: float = Field(-1.5, lt=0, description="l, the lower end that s is stretched to")
    high: float = Field(1.5, gt=1, description="r, the upper end")
    temperature: PositiveFloat = Field(1.0, description="β of the concrete distribution")

    @model_validator(mode="after")
    def _gates_can_be_decided(self) -> Self:
        """A gate that is decided must be 0 or 1 exactly: σ(∓10) stretched has to reach beyond both ends."""
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
