"""All commands of the command line, by their words: `train`, `show plan`."""

from __future__ import annotations

from typing import Any

from typer.main import get_command

from weft.cli.app import build_app


def commands() -> dict[str, Any]:
    """Every command by its path."""
    found: dict[str, Any] = {}

    def walk(command: Any, path: list[str]) -> None:
        children = getattr(command, "commands", None)
        if children is None:
            found[" ".join(path)] = command
        for name, child in (children or {}).items():
            walk(child, [*path, name])

    walk(get_command(build_app()), [])
    return found


COMMANDS = commands()
