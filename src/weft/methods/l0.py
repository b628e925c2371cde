"""The settings of L0 gates: how ranks are found in training (MORRIS, section 3.4)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from pydantic import BeforeValidator, Field, NonNegativeFloat, PositiveFloat, PositiveInt

from weft.errors import WeftError
from weft.methods.method import Method
from weft.settings import Settings, SettingsError


class L0(Settings):
    """Gates on the components of low-rank updates, trained away by a penalty (Louizos et al., 2018).

    Phase one trains `steps` steps with random gates z and the penalty; then every gate is opened or shut for
    good by `threshold`, and the run's own `train.steps` follow with a new optimiser and schedule. What the
    paper leaves out follows the code its notation is from (DiffPruning): stretch, start, learning rate.
    """

    what = "l0"

    penalty: NonNegativeFloat = Field(5e-6, description="λ, on the sum of P(z ≠ 0) over the gates")
    steps: PositiveInt = Field(10_000, description="of phase one, which comes before train.steps")
    lr: PositiveFloat | None = Field(None, description="of the weights in phase one; default train.lr")
    gate_lr: PositiveFloat = Field(0.1, description="of the gates, constant")
    start: float = Field(5.0, description="α at the start: gates begin open")
    threshold: float = Field(0.5, description="after phase one, gates with α below are shut, others open")
    low: float = Field(-1.5, lt=0, description="l, the lower end that s is stretched to")
    high: float = Field(1.5, gt=1, description="r, the upper end")
    temperature: PositiveFloat = Field(1.0, description="β of the concrete distribution")


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


def l0_of(method: Method) -> L0 | None:
    """The gates' settings of a method; parts of a composition must agree on the phases."""
    found: list[L0] = [l0 for part in method.parts if (l0 := getattr(part, "l0", None)) is not None]
    for other in found[1:]:
        for key in ("steps", "lr", "gate_lr"):
            one, two = getattr(found[0], key), getattr(other, key)
            if one != two:
                raise WeftError(f"method: two parts have different l0.{key}, {one} and {two}; give them one")
    return found[0] if found else None
