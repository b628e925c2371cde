"""The commands, one per file. A new command is one file and one line in `COMMANDS`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import typer

from weft.cli.help import PlainCommand
from weft.registry import Registry


@dataclass(frozen=True)
class Command:
    """A command with a help page of a custom class.

    Attributes:
        function: the command; its arguments are those of the command line, its docstring is the help.
        cls: the class that formats the help.
    """

    function: Callable[..., None]
    cls: type[PlainCommand] = PlainCommand


COMMANDS: Registry[Callable[..., None] | Command | typer.Typer] = Registry(
    "command",
    {
        "assemble": "weft.cli.commands.assemble:assemble",
        "card": "weft.cli.commands.card:card",
        "check": "weft.cli.commands.check:check",
        "compare": "weft.cli.commands.compare:compare",
        "compact": "weft.cli.commands.compact:compact",
        "encoder": "weft.cli.commands.encoder:encoder",
        "evaluate": "weft.cli.commands.evaluate:evaluate",
        "export": "weft.cli.commands.export:COMMAND",
        "import": "weft.cli.commands.import_peft:import_peft",
        "new": "weft.cli.commands.new:new",
        "policy": "weft.cli.commands.policy:policy",
        "predict": "weft.cli.commands.predict:predict",
        "push": "weft.cli.commands.push:push",
        "report": "weft.cli.commands.report:report",
        "serve": "weft.cli.commands.serve:serve",
        "show": "weft.cli.show.show:show",
        "submit": "weft.cli.commands.submit:submit",
        "task": "weft.cli.commands.task:task",
        "train": "weft.cli.commands.train:train",
    },
)
"""The commands by name: a function with typed arguments, a `Command`, or a `typer.Typer` with subcommands."""
