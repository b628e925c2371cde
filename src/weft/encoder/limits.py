"""What an encoder's configuration allows, read without its weights and without torch.

A run file with rows that are too long, or with a layer that the encoder does not have, is refused at once.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from weft.encoder.catalogue import ARCHITECTURES, RANDOM, random_parts
from weft.encoder.families import FAMILIES
from weft.encoder.packages import PACKAGES
from weft.utils.hub import cached_config


class EncoderLimits(NamedTuple):
    """The limits of an encoder.

    Attributes:
        layers: the number of its blocks.
        longest_row: the most tokens of a row; None: any number.
    """

    layers: int
    longest_row: int | None

    def __str__(self) -> str:
        rows = "of any length" if self.longest_row is None else f"of at most {self.longest_row:,} tokens"
        return f"{self.layers} layers (0-{self.layers - 1}), rows {rows}"


def encoder_limits(name: str) -> EncoderLimits | None:
    """Return the limits of an encoder; None if its configuration is not on this machine or not understood.

    Example:
        >>> encoder_limits("random:roberta-base")
        EncoderLimits(layers=12, longest_row=512)

    Args:
        name: as in `load_encoder`: a folder, a built-in encoder, a hub id, or
            `random:ARCHITECTURE[@TOKENIZER]`.
    """
    if name.startswith(RANDOM):
        entry = ARCHITECTURES.get(random_parts(name)[0])
        return None if entry is None else limits_of_config({"model_type": entry[0], **entry[1]})
    file = config_file(name)
    if file is None or not file.is_file():
        return None
    try:
        config = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):  # loading the encoder reports it
        return None
    return limits_of_config(config) if isinstance(config, dict) else None


def limits_of_config(config: Mapping[str, Any]) -> EncoderLimits | None:
    """Return the limits that a configuration states; None for an unknown family.

    Args:
        config: the contents of config.json.
    """
    family = str(config.get("model_type"))
    if family not in FAMILIES or (limits := FAMILIES[family].limits) is None:
        return None
    layers = config.get(*limits.layers)
    longest: Any = None
    has_table = limits.only_if is None or config.get(*limits.only_if) == limits.only_if_is
    if limits.positions is not None and has_table:
        longest = config.get(*limits.positions)
        if limits.padding is not None and isinstance(longest, int):
            padding = config.get("pad_token_id", limits.padding)
            longest = longest - padding - 1 if isinstance(padding, int) else None
    if not isinstance(layers, int) or not isinstance(longest, int | None):
        return None
    return EncoderLimits(layers, longest)


def config_file(name: str) -> Path | None:
    """The config.json of an encoder by its name; None if it is not on this machine."""
    if name in PACKAGES:
        built_in = PACKAGES[name].folder(name)
        return None if built_in is None else built_in / "config.json"
    folder = Path(name)
    return folder / "config.json" if folder.is_dir() else cached_config(name)
