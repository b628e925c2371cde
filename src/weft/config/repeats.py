"""Lists of a run file that name the same thing twice, which is usually a typing mistake."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

_AS_TEXT = ("only", "metrics")
"""Lists that may also be written as a text: `only: cola, rte`."""
_OF_NUMBERS = "layers"
"""Numbers may repeat in other lists, such as weights; a list of layers names each of them once."""


def repeated(value: Any, place: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield (place, item) for each item that a list of names holds twice or more.

    Example:
        >>> list(repeated({"tasks": {"suite": "glue", "only": ["cola", "cola"]}}))
        [(('tasks', 'only'), 'cola')]

    Args:
        value: the contents of a run file, or of a section of it.
        place: the keys of that section.
    """
    key = place[-1] if place else ""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from repeated(inner, (*place, str(name)))
        return
    if isinstance(value, str) and (key in _AS_TEXT or place[-2:-1] == ("metrics",)):
        value = [part.strip() for part in value.split(",")]
    if not isinstance(value, list):
        return
    names = [
        item for item in value if isinstance(item, str) or (key.endswith(_OF_NUMBERS) and type(item) is int)
    ]
    for item in dict.fromkeys(names):
        if names.count(item) > 1:
            yield place, str(item)
    for number, inner in enumerate(value):
        if isinstance(inner, dict | list):
            yield from repeated(inner, (*place, str(number)))
