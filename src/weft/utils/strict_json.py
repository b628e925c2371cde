"""JSON that every reader accepts. Python's own writer writes NaN and Infinity, which are not JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any


def finite_or_null(value: Any) -> Any:
    """Return a JSON value in which None replaces every number that is NaN or infinite."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: finite_or_null(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [finite_or_null(item) for item in value]
    return value


def strict_json(value: Any) -> str:
    """Return the text of a JSON value, on one line; numbers that are NaN or infinite become null."""
    try:
        return json.dumps(value, allow_nan=False)
    except ValueError:
        return json.dumps(finite_or_null(value), allow_nan=False)
