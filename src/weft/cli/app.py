"""The `weft` command and its exit codes.

Nothing heavy is imported before a command needs it: `weft --help` must answer at once.
"""

from __future__ import annotations

import errno
import os
import sys
from contextlib import redirect_stderr, redirect_stdout
from typing import Any

import typer
from typer.core import TyperGroup

from weft.cli.commands import COMMANDS, Command
from weft.errors import RunFailed, WeftError, command_line
from weft.utils import launch_env as launched
from weft.utils.out_of_memory import memory_message, ran_out_of_memory

INTERRUPTED = 130
"""The parser's exit code for Ctrl-C, as a shell expects it."""

HELP = """Train one pretrained text encoder on many tasks, with a few extra parameters per task.

A run file (YAML) names the encoder, the method, the tasks and the training settings. `weft train` writes a
run: a folder with the log, the metrics, the checkpoints and the best model. The saved model is a bundle: a
folder with one file for what the tasks share and one file per task.

First steps: weft train quickstart --out runs/first

Then: weft evaluate runs/first

Help on one command: weft train --help
"""


FIRST = ("train", "check", "evaluate", "predict", "show", "task")
"""The commands at the top of the help: those that a new user needs first. The others follow by name."""


class InOrder(TyperGroup):
    """A group whose help lists the commands of `FIRST` first."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of the commands, in the order of the help."""
        names = sorted(super().list_commands(ctx))
        return [*(name for name in FIRST if name in names), *(name for name in names if name not in FIRST)]


def build_app() -> typer.Typer:
    """Build the command line with every command of `COMMANDS`."""
    app = typer.Typer(
        name="weft",
        cls=InOrder,
        help=HELP,
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
    )
    for name in COMMANDS:
        command = COMMANDS[name]
        if isinstance(command, typer.Typer):
            app.add_typer(command, name=name)
        elif isinstance(command, Command):
            app.command(name=name, cls=command.cls)(command.function)
        else:
            app.command(name=name)(command)
    return app


def run(arguments: list[str] | None = None) -> int:
    """Run a command line and return the exit code; a user's mistake is printed, not raised.

    If several processes were started together (torchrun), only rank 0 prints.
    """
    with command_line():
        if launched.rank() > 0:
            with open(os.devnull, "w") as nothing, redirect_stdout(nothing), redirect_stderr(nothing):
                return _run(arguments)
        return _run(arguments)


def _run(arguments: list[str] | None) -> int:
    try:
        code = build_app()(arguments, standalone_mode=False)
    except RunFailed as failed:
        # from any rank: the other processes wait for this one, and cannot know why it ended
        print(failed, file=sys.__stderr__ if launched.rank() > 0 else sys.stderr)
        return 1
    except WeftError as wrong:
        print(wrong, file=sys.stderr)
        return 2
    except OSError as wrong:
        print(f"{wrong.filename or 'a file'}: {wrong.strerror or wrong}", file=sys.stderr)
        return 1 if wrong.errno in (errno.ENOSPC, errno.EIO) else 2
    except (typer.Abort, KeyboardInterrupt):
        print("stopped", file=sys.stderr)
        return 1
    except MemoryError as wrong:
        return _out_of_memory(wrong)
    except Exception as wrong:
        if ran_out_of_memory(wrong):
            return _out_of_memory(wrong)
        # errors of the argument parser print themselves
        if hasattr(wrong, "show") and hasattr(wrong, "exit_code"):
            wrong.show()
            return int(wrong.exit_code)
        raise
    if code == INTERRUPTED:
        words = sys.argv[1:] if arguments is None else arguments
        # a run that stops between two steps is reported by `weft train`; here nothing was saved
        training = words[:1] == ["train"]
        hint = "; --resume continues from the last checkpoint, if there is one" if training else ""
        print(f"stopped{hint}", file=sys.stderr)
    return code if isinstance(code, int) else 0


def _out_of_memory(wrong: BaseException) -> int:
    print(f"out of memory: {memory_message(wrong)}", file=sys.stderr)
    print("  free the device's memory, use a smaller encoder, or use --device cpu", file=sys.stderr)
    return 1


def main() -> None:
    """Run the `weft` command and exit with its code."""
    sys.exit(run())
