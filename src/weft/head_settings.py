"""The `heads` section of a run file. No torch is imported to check it."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from weft.settings import Settings


class HeadSettings(Settings):
    """The `heads` section of a run file."""

    what = "heads"

    pool: Literal["auto", "pooler", "cls", "mean"] = Field(
        "auto",
        description="what heads read: the encoder's pooler, its first token, or the mean of its tokens; "
        "auto: mean for a sentence encoder that says so (minilm), else the pooler, else the first token",
    )
    dropout: float = Field(0.1, ge=0, lt=1, description="on what heads read, in training")
