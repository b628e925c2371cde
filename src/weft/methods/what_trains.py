"""Which encoder parameters a method trains, as one setting apart from all others.

Two methods that differ only in it have the same tensors: a model of one can take the weights of the other.
"""

from __future__ import annotations

from typing import Any

from weft.methods import build_method
from weft.methods.method import Method

KEY = "train_encoder"


def differ_only_in_training(first: Method, second: Method) -> bool:
    """Whether two methods have the same tensors, whatever each of them trains.

    Methods without adapters (`full`, `frozen`) differ in nothing else.
    """
    return _tensors_of(first) == _tensors_of(second)


def with_train_encoder(method: Method, choice: str) -> Method:
    """The same method with a different choice of the encoder parameters that train, in all of its parts.

    Args:
        method: the method.
        choice: a value of `train_encoder`: none, all, biases, norms, or `layers 6-11`.
    """
    return build_method([{**part.settings(), KEY: choice} for part in method.parts])


def _tensors_of(method: Method) -> list[dict[str, Any]]:
    """The settings that decide on a method's tensors, by part."""
    settings = []
    for part in method.parts:
        plain = type(part).weave is Method.weave and not part.separate
        settings.append({**part.settings(), KEY: None, **({"use": None} if plain else {})})
    return settings
