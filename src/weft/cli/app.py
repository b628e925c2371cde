"""The `weft` command and its exit codes.

Nothing heavy is imported before a command needs it: `weft --help` must answer at once.
"""

from __future__ import annotations

import functools
import os
import sys
import warnings
from collections.abc import Hashable
from contextlib import redirect_stderr, redirect_stdout
from importlib.metadata import PackageNotFoundError, version
from typing import Annotated, Any

import typer
from typer.main import get_command

from weft.cli.commands import COMMANDS, Command
from weft.cli.help import CONTEXT, PlainCommand, PlainGroup
from weft.cli.quiet import Quiet, turn_quiet, with_quiet
from weft.errors import RunFailed, WeftError, command_line
from weft.utils import launch_env as launched
from weft.utils.notes import is_quiet, quiet
from weft.utils.out_of_memory import memory_message, ran_out_of_memory
from weft.utils.terminal import escaped, escaping_output
from weft.utils.version import __version__
from weft.utils.write_errors import FAILED

INTERRUPTED = 130
"""The exit code for Ctrl-C, as a shell expects it."""

HELP = """Train one pretrained text encoder on many tasks, with a few extra parameters per task.

A run file (YAML) names the encoder, the method, the tasks and the training settings. `weft train` writes a
run: a folder with the log, the metrics, the checkpoints and the best model. The saved model is a bundle: a
folder with one file for what the tasks share and one file per task.

First steps: weft train quickstart --out runs/first

Then: weft evaluate runs/first

Your own data: weft new reviews.csv

Help on one command: weft train --help
"""


FIRST = ("new", "train", "check", "evaluate", "predict", "show", "task")
"""The commands at the top of the help: those that a new user needs first. The others follow by name."""


class Interrupted(Exception):
    """Ctrl-C that the command itself has not reported."""


class InOrder(PlainGroup):
    """A group whose help lists the commands of `FIRST` first."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command. The parser would make exit code 130 of Ctrl-C, as commands do that report it."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            raise Interrupted from None

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of the commands, in the order of the help."""
        names = sorted(super().list_commands(ctx))
        return [*(name for name in FIRST if name in names), *(name for name in names if name not in FIRST)]


def build_app() -> typer.Typer:
    """Build the command line with every command of `COMMANDS`; each of them also has `--quiet`."""
    app = typer.Typer(
        name="weft",
        cls=InOrder,
        help=HELP,
        no_args_is_help=True,
        context_settings=CONTEXT,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
    )
    app.callback()(_weft)
    for name in COMMANDS:
        command = COMMANDS[name]
        if isinstance(command, typer.Typer):
            for info in command.registered_commands:
                info.cls = info.cls if info.cls and issubclass(info.cls, PlainCommand) else PlainCommand
                if info.callback is not None:
                    info.callback = with_quiet(info.callback)
            app.add_typer(command, name=name, cls=PlainGroup)
        elif isinstance(command, Command):
            app.command(name=name, cls=command.cls)(with_quiet(command.function))
        else:
            app.command(name=name, cls=PlainCommand)(with_quiet(command))
    return app


def _parser() -> Any:
    """The parser of the command line, built once (it takes 40 ms), and again if a command was added."""
    entries = [(name, COMMANDS[name]) for name in COMMANDS]
    groups = [tuple(map(id, getattr(entry, "registered_commands", ()))) for _, entry in entries]
    return _built(tuple((name, id(entry)) for name, entry in entries), tuple(groups))


@functools.lru_cache(maxsize=1)
def _built(commands: Hashable, groups: Hashable) -> Any:
    """The parser of these commands, which are known by their identity, and of those of their groups."""
    return get_command(build_app())


def _print_version(on: bool) -> None:
    if on:
        print(f"weft {__version__}")
        others = [f"{name} {_installed(name)}" for name in ("torch", "transformers")]
        print(", ".join([*others, f"Python {'.'.join(map(str, sys.version_info[:3]))}"]))
        raise typer.Exit


def _installed(package: str) -> str:
    """The version of a package, which is not imported."""
    try:
        return version(package)
    except PackageNotFoundError:
        return "is not installed"


def _weft(
    show_version: Annotated[
        bool,
        typer.Option(
            "--version",
            callback=_print_version,
            is_eager=True,
            help="print the versions of weft, torch, transformers and Python, and exit",
        ),
    ] = False,
    be_quiet: Quiet = False,
) -> None:
    turn_quiet(be_quiet)


def run(arguments: list[str] | None = None) -> int:
    """Run a command line and return the exit code; a user's mistake is printed, not raised.

    If several processes were started together (torchrun), only rank 0 prints.
    """
    # --quiet holds for one command line
    with command_line(), quiet(is_quiet()), warnings.catch_warnings(), escaping_output():
        if launched.rank() > 0:
            with open(os.devnull, "w") as nothing, redirect_stdout(nothing), redirect_stderr(nothing):
                return _run(arguments)
        return _run(arguments)


def _run(arguments: list[str] | None) -> int:
    try:
        code = _parser()(arguments, standalone_mode=False, prog_name="weft")
    except SystemExit as done:  # after the options of completion
        return done.code if isinstance(done.code, int) else int(done.code is not None)
    except RunFailed as failed:
        # from any rank: the other processes wait for this one, and cannot know why it ended
        print(escaped(str(failed)), file=sys.__stderr__ if launched.rank() > 0 else sys.stderr)
        return 1
    except WeftError as wrong:
        print(escaped(str(wrong)), file=sys.stderr)
        return 2
    except OSError as wrong:
        print(escaped(f"{wrong.filename or 'a file'}: {wrong.strerror or wrong}"), file=sys.stderr)
        return 1 if wrong.errno in FAILED else 2
    except (Interrupted, KeyboardInterrupt):
        words = sys.argv[1:] if arguments is None else arguments
        # a run that stops between two steps is reported by `weft train`; here nothing was saved
        training = words[:1] == ["train"]
        hint = "; --resume continues from the last checkpoint, if there is one" if training else ""
        print(f"stopped{hint}", file=sys.stderr)
        return INTERRUPTED
    except typer.Abort:
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
    return code if isinstance(code, int) else 0


def _out_of_memory(wrong: BaseException) -> int:
    print(f"out of memory: {memory_message(wrong)}", file=sys.stderr)
    print("  free the device's memory, use a smaller encoder, or use --device cpu", file=sys.stderr)
    return 1


def main() -> None:
    """Run the `weft` command and exit with its code."""
    code = run()
    try:
        sys.stdout.flush()
    except BrokenPipeError:  # the reader has what it wanted (`| head`)
        _drop_standard_output()
    except OSError as wrong:  # > /dev/full
        print(f"standard output: it cannot be written to: {wrong.strerror or wrong}", file=sys.stderr)
        _drop_standard_output()
        code = code or 1
    sys.exit(code)


def _drop_standard_output() -> None:
    """Send what is left to nowhere, or Python complains as it exits."""
    from weft.workflows.prediction_output import quiet_standard_output

    quiet_standard_output()
