"""Help pages in plain words: nothing is cut, and placeholders are names.

typer writes `{RUN.yaml}` and `RUN.yaml <str>` for an argument, and cuts the first sentence of a command in
the list of commands. Here an argument is `RUN.yaml` in both places, an optional one `[KEY=VALUE]...` in the
usage line, and sentences wrap.
"""

from __future__ import annotations

import inspect
import re
from typing import Any

from typer.core import TyperCommand, TyperGroup

CONTEXT: dict[str, Any] = {"help_option_names": ["-h", "--help"]}
"""Settings of the parser that all commands inherit from the group of all commands."""


TYPES = {"int": "N", "float": "NUMBER", "path": "PATH", "file": "FILE", "directory": "FOLDER"}
"""Placeholders of values for which an option names none, by typer's `<type>`; all others are TEXT."""


def _placeholder(parameter: Any) -> str:
    """The name of an argument."""
    return str(parameter.metavar or parameter.name.upper())


def _usage(parameter: Any) -> str:
    """An argument in the usage line: in brackets if it is optional, with dots if it may be repeated."""
    name = _placeholder(parameter)
    return (name if parameter.required else f"[{name}]") + ("..." if parameter.nargs != 1 else "")


def _first_sentence(command: Any) -> str:
    paragraph = inspect.cleandoc(command.help or "").partition("\n\n")[0]
    return " ".join(paragraph.split())


def _option(name: str) -> str:
    """An option with its placeholder: typer's `--rows <int range>` becomes `--rows N`."""
    return re.sub(r"<(\w+)[^>]*>", lambda match: TYPES.get(match[1], "TEXT"), name)


def _described(text: str) -> str:
    """The description of a parameter: typer's `[x>=1]` in words."""
    return re.sub(r"x>=([\d.]+)", r"at least \1", text)


def _write_parameters(command: Any, ctx: Any, formatter: Any) -> None:
    """Write the sections of the arguments and of the options."""
    sections: dict[str, list[tuple[str, str]]] = {"argument": [], "option": []}
    for parameter in command.get_params(ctx):
        record = parameter.get_help_record(ctx)
        if record is not None:
            kind = parameter.param_type_name
            name = _placeholder(parameter) if kind == "argument" else _option(record[0])
            sections[kind].append((name, _described(record[1])))
    for kind, records in sections.items():
        if records:
            with formatter.section(f"{kind.capitalize()}s"):
                formatter.write_dl(records)


class PlainCommand(TyperCommand):
    """A command whose help page has plain placeholders."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Return the words of the usage line."""
        arguments = [p for p in self.get_params(ctx) if p.param_type_name == "argument"]
        return ["[OPTIONS]", *map(_usage, arguments)]

    def get_short_help_str(self, limit: int = 45) -> str:
        """Return the first sentence of the help, for the list of commands; it is never cut."""
        return _first_sentence(self)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the arguments and the options."""
        _write_parameters(self, ctx, formatter)


class PlainGroup(TyperGroup):
    """A group of commands whose help page has plain placeholders."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Return the words of the usage line."""
        return ["[OPTIONS]", "COMMAND", "..."]

    def get_short_help_str(self, limit: int = 45) -> str:
        """Return the first sentence of the help, for the list of commands; it is never cut."""
        return _first_sentence(self)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the options and the commands."""
        _write_parameters(self, ctx, formatter)
        self.format_commands(ctx, formatter)
