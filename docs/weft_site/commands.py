"""The reference of the command line, written from the commands themselves."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from typing import Any

import typer.main

from weft.cli.app import build_app


def command_page() -> str:
    """Return the page: every command with its help, arguments and options (Markdown)."""
    program = typer.main.get_command(build_app())
    parts = ["# The command line", "", "What `weft COMMAND --help` prints, on one page.", ""]
    for words, command in _commands(["weft"], program):
        parts += (
            [f"{'#' * min(len(words), 3)} {' '.join(words)}", "", _text(command), ""] if words[1:] else []
        )
        parts += _parameters(words, command) if words[1:] else []
    return "\n".join(parts)


def _commands(words: list[str], command: Any) -> Iterator[tuple[list[str], Any]]:
    """Every command with its words, subcommands behind their group."""
    yield words, command
    for name in command.list_commands(None) if hasattr(command, "commands") else []:
        yield from _commands([*words, name], command.commands[name])


def _text(command: Any) -> str:
    """The help as Markdown: its examples are code."""
    text = inspect.cleandoc(command.help or "").replace("\f", "").replace("\b\n", "")
    text = re.sub(r"<(?=\w)", r"\\<", text)
    return re.sub(r"^(Example|First steps|Then): (.+)$", r"\1: `\2`", text, flags=re.MULTILINE)


def _parameters(words: list[str], command: Any) -> list[str]:
    if hasattr(command, "commands"):
        return []
    arguments = [one for one in command.params if one.param_type_name == "argument"]
    options = [one for one in command.params if one.param_type_name == "option" and "--help" not in one.opts]
    usage = [*words, *(_argument(one) for one in arguments), *(["[OPTIONS]"] if options else [])]
    lines = ["```", " ".join(usage), "```", ""]
    rows = [(_argument(one), one) for one in arguments] + [(_option(one), one) for one in options]
    if rows:
        lines += ["| | |", "|---|---|"]
        lines += [f"| `{name}` | {_cell(getattr(one, 'help', None) or '')} |" for name, one in rows]
        lines.append("")
    return lines


def _argument(parameter: Any) -> str:
    name = parameter.make_metavar(None) if not parameter.metavar else parameter.metavar
    return str(name)


def _option(parameter: Any) -> str:
    names = ", ".join([*parameter.opts, *parameter.secondary_opts])
    return names if parameter.is_flag else f"{names} {parameter.metavar or (parameter.name or '').upper()}"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
