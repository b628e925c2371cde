"""`separate`: one whole encoder per task, the baseline that every paper compares with; or soft sharing."""

from __future__ import annotations

from typing import Annotated

from pydantic import BeforeValidator, ConfigDict, Field, NonNegativeFloat

from weft.methods.method import Method, TrainEncoder
from weft.settings import Settings, SettingsError


class SoftSharing(Settings):
    """Penalties that keep the encoders of the tasks similar: soft parameter sharing.

    `weft.training.optim.soft_sharing` has the equations.
    """

    what = "soft"

    model_config = ConfigDict(allow_inf_nan=False)

    l2: NonNegativeFloat = Field(0.0, description="λ of the squared distances between the tasks' weights")
    trace_norm: NonNegativeFloat = Field(
        0.0, description="λ of the trace norm of the tasks' weights, which favours few common directions"
    )


def _soft(value: object) -> object:
    if value is None or isinstance(value, SoftSharing):
        return value
    if not isinstance(value, dict):
        raise ValueError(f"expected settings (l2, trace_norm); found {value!r}")
    try:
        return SoftSharing(**{str(key): setting for key, setting in value.items()})
    except SettingsError as wrong:
        raise ValueError("; ".join(f"{key}: {text}" for key, text in wrong.mistakes)) from None


class Separate(Method):
    """One copy of the encoder per task, behind the same interface.

    Nothing is shared: T tasks have T encoders. With `soft`, a penalty keeps them similar.
    """

    name = "separate"
    default_lr = 1e-4
    separate = True
    train_encoder: TrainEncoder = Field("all", description="which parameters of each encoder train")
    soft: Annotated[SoftSharing | None, BeforeValidator(_soft)] = Field(
        None,
        description="soft sharing: l2 and trace_norm, weights of penalties that keep the encoders similar; "
        "null: none",
    )
