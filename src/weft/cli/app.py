"""The commands. Nothing heavy is imported before a command needs it: `weft --help` must answer at once."""

from __future__ import annotations

import errno
import os
import sys
from contextlib import redirect_stderr, redirect_stdout

import typer

from weft.cli.commands import COMMANDS, Command
from weft.errors import RunFailed, WeftError
from weft.utils import launch_env as launched

INTERRUPTED = 130
"""The parser's exit code for Ctrl-C, as a shell expects it."""


def build_app() -> typer.Typer:
    """The command line with every command of `COMMANDS`."""
    app = typer.Typer(
        name="weft",
        help="One pretrained text encoder, many tasks, a few extra parameters for each.",
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
    """Run a command line; returns the exit code and never raises for a user's mistake.

    Of processes that were started together, the first one alone speaks.
    """
    if launched.rank() > 0:
        with open(os.devnull, "w") as nothing, redirect_stdout(nothing), redirect_stderr(nothing):
            return _run(arguments)
    return _run(arguments)


def _run(arguments: list[str] | None) -> int:
    try:
        code = build_app()(arguments, standalone_mode=False)
    except RunFailed as failed:
        # whichever process it is: the others wait for this one, and cannot know why it went
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
    except Exception as wrong:
        # the parser's own errors know how to show themselves
        if hasattr(wrong, "show") and hasattr(wrong, "exit_code"):
            wrong.show()
            return int(wrong.exit_code)
        raise
    if code == INTERRUPTED:
        given = sys.argv[1:] if arguments is None else arguments
        print(
            "stopped; the run goes on with --resume" if given[:1] == ["train"] else "stopped", file=sys.stderr
        )
    return code if isinstance(code, int) else 0


def main() -> None:
    """The `weft` command."""
    sys.exit(run())
