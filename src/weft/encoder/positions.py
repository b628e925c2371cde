"""How long a row an encoder can take."""

from __future__ import annotations

from typing import Any

FROM_PADDING = ("roberta", "xlm-roberta", "camembert", "mpnet")
"""Families that number positions from the padding id on: the first `padding id + 1` places are never used."""


def longest_row(config: Any) -> int | None:
    """The most tokens of a row; None where positions are relative or rotary.

    Args:
        config: a Hugging Face configuration of a known family.
    """
    family = config.model_type
    if family == "modernbert" or (family == "deberta-v2" and not config.position_biased_input):
        return None
    places: int = config.max_position_embeddings
    return places - 1 - (config.pad_token_id or 0) if family in FROM_PADDING else places
