"""Values read from files: numbers that may be written as text, lists, texts."""

from __future__ import annotations

import math


def number_of(value: object) -> float | None:
    """Return the finite number that a value is or that its text spells, else None."""
    if isinstance(value, bool):
        return None
    try:
        number = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def whole(value: object) -> int | None:
    """Return the whole number that a value is or that its text spells, else None."""
    number = number_of(value)
    return int(number) if number is not None and number.is_integer() else None


def is_missing(value: object) -> bool:
    """Whether a cell is empty: None, NaN, or a text of nothing but white space."""
    if isinstance(value, str):
        return not value or value.isspace()
    return value is None or (isinstance(value, float) and math.isnan(value))


def listed(value: object) -> list[object] | None:
    """Return the items of a list or tuple, else None."""
    return list(value) if isinstance(value, list | tuple) else None


def wrong_text(value: object) -> str | None:
    """Return what is wrong with a text, or None if it is valid."""
    if value is None:
        return "the text is missing"
    if not isinstance(value, str):
        return f"expected a string; found {type(value).__name__}"
    if not value or value.isspace():
        return "expected a text that is not empty"
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            # JSON's \ud83d without its other half; no tokenizer accepts it
            return "expected valid Unicode; found half of a surrogate pair"
    return None
