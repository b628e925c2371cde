"""`grow.train_encoder`: which encoder parameters train together with a new task."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from weft.errors import WeftError
from weft.model.ownership import Owned
from weft.model.what_trains import change_what_trains, trained_encoder

if TYPE_CHECKING:
    from weft.methods.method import Method
    from weft.model.model import Model

Moves = Callable[[Owned], bool]


def set_encoder_training(model: Model, choice: str, moves: Moves) -> tuple[Moves, str | None]:
    """Set which encoder parameters train with a new task.

    A bundle holds the encoder parameters that its method trains, and no others. If the choice contains them
    all, it becomes the setting of the model's method. If they contain the choice, the method stays as it is,
    and only the choice moves. Any other choice would lose trained weights, and is refused.

    Args:
        model: the model of the bundle, with the new task.
        choice: a value of `train_encoder`.
        moves: which parameters train otherwise.

    Returns:
        Which parameters train now, and a note if the method has changed.
    """
    before, method = trained_encoder(model), model.method
    change_what_trains(model, choice)
    after = trained_encoder(model)
    if after == before:
        model.method = method
        return moves, None
    if after > before:
        note = f"the method of the new bundle has train_encoder: {choice!r}, before {_choices(method)}"
        return moves, note
    model.method = method
    for name, parameter in model.encoder.named_parameters():
        parameter.requires_grad_(f"encoder.{name}" in before)
    if after < before:
        return (lambda item: moves(item) and (item.part != "encoder" or item.name in after)), None
    raise WeftError(
        f"grow.train_encoder: {choice!r} leaves out encoder parameters that the bundle's method has trained "
        f"({_choices(method)}) and adds others, so that the new bundle could not hold both; expected a "
        "choice that contains them, such as all, or one that they contain"
    )


def _choices(method: Method) -> str:
    return ", ".join(dict.fromkeys(repr(part.train_encoder) for part in method.parts))
