"""Why a task cannot be written in a format, and what to do instead."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from weft.errors import WeftError

if TYPE_CHECKING:
    from weft.model.model import Model

INSTEAD = "weft export BUNDLE --to onnx --out PATH"
"""The export that has a place for every kind, and for every method but `separate`."""


class CannotExport(WeftError):
    """A model or a task has no place in a format; its text is only the reason."""


def refused(model: Model, task: str, name: str, reason: CannotExport) -> WeftError:
    """Return the error for a user: the reason, and the export that works, if there is one.

    Args:
        model: the model.
        task: the task's name.
        name: the export format.
        reason: why it cannot be exported.
    """
    return WeftError(f"task {task!r} cannot be exported to {name}: {reason}{to_onnx(model)}")


def with_paths(text: str, bundle: Path, out: Path) -> str:
    """Name the user's bundle and folder in the command that a refusal suggests."""
    return text.replace(
        INSTEAD, f"weft export {shlex.quote(str(bundle))} --to onnx --out {shlex.quote(str(out))}"
    )


def to_onnx(model: Model) -> str:
    """The line that names the export to ONNX; empty for a model that it refuses."""
    return "" if model.method.separate else f"\n  type: {INSTEAD}    (all kinds)"
