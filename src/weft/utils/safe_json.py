"""Reads JSON of any origin: whatever is wrong with it is a `ValueError`, and nesting is limited.

Python's parser answers thousands of brackets with a RecursionError, and a value that is nested almost as
deeply breaks whatever prints, copies or checks it later.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from weft.errors import WeftError

DEPTH = 100
"""How deeply objects and lists may be nested; files of weft, PEFT and transformers have about ten levels."""
LARGEST = 64 * 2**20
"""The largest configuration file, in bytes; the largest known ones, with thousands of labels, have one MB."""


def parse_json(text: str | bytes) -> Any:
    """Return the value of a JSON text.

    Raises:
        ValueError: it is not JSON, or it is nested too deeply.
    """
    try:
        value = json.loads(text)
    except RecursionError:
        raise ValueError(f"it is nested more than {DEPTH} levels deep") from None
    if isinstance(text, bytes):
        opened = text.count(b"[") + text.count(b"{")
    else:
        opened = text.count("[") + text.count("{")
    if opened > DEPTH and is_deep(value):
        raise ValueError(f"it is nested more than {DEPTH} levels deep")
    return value


def read_json(path: Path, expected: str, largest: int = LARGEST) -> dict[str, Any]:
    """Read a file that holds one JSON object.

    Args:
        path: the file.
        expected: what the file should be, the end of a message ("expected the folder of a PEFT adapter").
        largest: the most bytes that it may have.
    """
    if not path.is_file():
        raise WeftError(f"{path} is missing; {expected}")
    try:
        size = path.stat().st_size
        if size > largest:
            raise WeftError(f"{path} has {size:,} bytes; expected at most {largest:,}")
        contents = parse_json(path.read_bytes())
    except OSError as wrong:
        raise WeftError(f"{path} cannot be read: {wrong.strerror or wrong}") from None
    except ValueError as wrong:  # includes UnicodeDecodeError
        raise WeftError(f"{path} is not JSON: {wrong}") from None
    if not isinstance(contents, dict):
        raise WeftError(f"{path}: expected an object; found {type(contents).__name__}")
    return contents


def is_deep(value: Any) -> bool:
    """Return whether a value is nested more than `DEPTH` levels deep; level by level, not by recursion."""
    level: list[Any] = [value]
    for _ in range(DEPTH):
        level = [
            inner
            for item in level
            if isinstance(item, dict | list)
            for inner in (item.values() if isinstance(item, dict) else item)
            if isinstance(inner, dict | list)
        ]
        if not level:
            return False
    return True
