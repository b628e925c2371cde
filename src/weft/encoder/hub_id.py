"""The name of an encoder on other machines."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from weft.encoder.packages import PACKAGES

if TYPE_CHECKING:
    from weft.encoder.load import Encoder

_IN_THE_CACHE = "models--"
"""The Hugging Face cache keeps `ORGANIZATION/NAME` in a folder `models--ORGANIZATION--NAME`."""


def hub_id(encoder: Encoder) -> str | None:
    """Return the encoder's id on the Hugging Face hub; None for a folder of unknown origin.

    The `_name_or_path` of a folder's config.json is not used: it often names the model that this one was
    fine-tuned from.
    """
    if encoder.name in PACKAGES:
        return PACKAGES[encoder.name].hub_id
    source = encoder.source or getattr(encoder.model.config, "name_or_path", None)
    if not source:
        return None
    folder = Path(source)
    for part in folder.parts:
        if part.startswith(_IN_THE_CACHE):
            return part.removeprefix(_IN_THE_CACHE).replace("--", "/")
    return None if folder.is_absolute() or folder.is_dir() else source


def portable_name(encoder: Encoder) -> str:
    """Return the encoder's hub id, else the last part of its folder's path, else its name in weft."""
    known = hub_id(encoder)
    if known is not None:
        return known
    source = encoder.source or getattr(encoder.model.config, "name_or_path", None)
    return Path(source).name if source else encoder.name
