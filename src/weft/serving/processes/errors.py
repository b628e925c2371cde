"""Errors on their way between processes, as tuples."""

from __future__ import annotations

from typing import Any

from weft.errors import WeftError
from weft.serving.refused import Refused


def failed() -> Refused:
    """What a client gets for an unexpected error: the text of that one stays in the log."""
    return Refused("failed", "the server failed; its log has the error")


def refused_fields(error: Refused) -> tuple[Any, ...]:
    """The arguments that make an equal `Refused`."""
    return error.code, error.message, error.where, error.headers


def as_tuple(error: BaseException) -> tuple[Any, ...]:
    """An error as a tuple; see `as_error`. The text of an unexpected error stays in this process."""
    if isinstance(error, Refused):
        return ("refused", *refused_fields(error))
    if isinstance(error, WeftError):
        return ("weft", str(error))
    return ("refused", *refused_fields(failed()))


def as_error(fields: tuple[Any, ...]) -> Exception:
    """The error of a tuple."""
    kind, *arguments = fields
    return Refused(*arguments) if kind == "refused" else WeftError(*arguments)
