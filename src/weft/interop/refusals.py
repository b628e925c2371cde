"""Why a task cannot be written in a format, and what to do instead."""

from __future__ import annotations

from weft.errors import WeftError

INSTEAD = "weft export BUNDLE --to onnx --out PATH"
"""The export that has a place for every method and every kind."""


class CannotExport(WeftError):
    """A model or a task has no place in a format; its text is only the reason."""


def refused(task: str, name: str, reason: CannotExport) -> WeftError:
    """Return the error for a user: the reason, and the export that works.

    Args:
        task: the task's name.
        name: the export format.
        reason: why it cannot be exported.
    """
    return WeftError(
        f"task {task!r} cannot be exported to {name}: {reason}\n  type: {INSTEAD}    (any method, any kind)"
    )
