"""Checks of a run file against its encoder's configuration, before weights are loaded."""

from __future__ import annotations

from weft.config.reading import Reading
from weft.encoder.limits import EncoderLimits
from weft.encoder.sites import parse_layers
from weft.errors import WeftError
from weft.methods import Method
from weft.training.settings import Training

_LAYERS = "layers"


def check_max_length(encoder: str, limits: EncoderLimits, training: Training, reading: Reading) -> None:
    """Record a mistake if rows may be longer than the encoder accepts.

    Args:
        encoder: the name of the encoder.
        limits: its limits.
        training: the settings of `train`.
        reading: takes the mistake.
    """
    longest = limits.longest_row
    if longest is not None and training.max_length > longest:
        reading.wrong(
            ["train", "max_length"],
            f"{training.max_length}; encoder {encoder!r} accepts rows of at most {longest} tokens",
        )


def check_layers(limits: EncoderLimits, method: Method, reading: Reading) -> None:
    """Record a mistake for each setting of the method that names a layer the encoder does not have.

    Args:
        limits: the limits of the encoder.
        method: the method.
        reading: takes the mistakes.
    """
    for number, part in enumerate(method.parts):
        place = ["method"] if len(method.parts) == 1 else ["method", str(number)]
        for key in type(part).model_fields:
            if key not in part.model_fields_set:
                continue
            value = getattr(part, key)
            if isinstance(value, int):  # a number of layers, such as `hidden_layers` of `top_ffn`
                continue
            if key == _LAYERS or key.endswith(f"_{_LAYERS}"):
                named = value
            elif key == "train_encoder" and value.startswith("layer"):
                named = value.split(maxsplit=1)[1]
            elif key.endswith("_pattern"):
                _check_pattern([*place, key], value, limits, reading)
                continue
            else:
                continue
            try:
                parse_layers(named, limits.layers)
            except WeftError as wrong:
                reading.wrong([*place, key], str(wrong))


def _check_pattern(
    place: list[str], pattern: dict[str, int], limits: EncoderLimits, reading: Reading
) -> None:
    """The sites of a pattern are named by layer and kind, such as `0/query`."""
    for site in pattern:
        layer = site.partition("/")[0]
        if layer.isdecimal() and int(layer) >= limits.layers:
            reading.wrong(place, f"site {site!r}: the encoder's layers are 0-{limits.layers - 1}")
