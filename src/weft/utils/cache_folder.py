"""Where weft keeps what it can make or fetch again: tokens of texts, and encoders that it has fetched."""

from __future__ import annotations

import os
from pathlib import Path


def cache_folder(cache: str | Path | None = None) -> Path:
    """Return the folder of the cache: the argument, else $WEFT_CACHE, else ~/.cache/weft."""
    chosen = cache or os.environ.get("WEFT_CACHE") or Path.home() / ".cache" / "weft"
    return Path(chosen).expanduser()
