"""Values as files give them: whole numbers that may be spelt, lists that may be arrays."""

from __future__ import annotations

import math


def number_of(value: object) -> float | None:
    """The finite number that a value is or spells, or None."""
    if isinstance(value, bool):
        return None
    try:
        number = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def whole(value: object) -> int | None:
    """The whole number that a value is or spells, or None."""
    number = number_of(value)
    return int(number) if number is not None and number.is_integer() else None


def listed(value: object) -> list[object] | None:
    """The items of a list, or None of anything else."""
    return list(value) if isinstance(value, list | tuple) else None


def wrong_text(value: object) -> str | None:
    """What is wrong with a text, or None."""
    if value is None:
        return "the text is missing"
    if not isinstance(value, str):
        return f"expected a string; this is {type(value).__name__}"
    if not value or value.isspace():
        return "expected a text that is not empty"
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            # JSON's \ud83d without its other half: no tokenizer takes it
            return "expected valid Unicode; this has half of a surrogate pair"
    return None
