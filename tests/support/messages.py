"""Messages between processes that cannot be sent or read."""

from __future__ import annotations


def nested(levels):
    value = None
    for _ in range(levels):
        value = [value]
    return value


class Unreadable:
    """Cannot be unpickled."""

    def __reduce__(self):
        return ZeroDivisionError, (), None, iter([1])
