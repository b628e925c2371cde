"""`--quiet`, which every command has: no notes, warnings and progress, only the result and errors."""

from __future__ import annotations

import functools
import inspect
import warnings
from collections.abc import Callable
from typing import Annotated, Any, get_type_hints

import typer

from weft.utils.notes import be_quiet

Quiet = Annotated[
    bool,
    typer.Option("--quiet", "-q", help="print only the result and errors: no progress, notes or warnings"),
]

OPTION = "quiet_"
"""The name of the parameter; commands may have one called `quiet`."""


def turn_quiet(on: bool) -> None:
    """Turn messages off if the option is there."""
    if on:
        be_quiet()
        warnings.simplefilter("ignore")  # of libraries; `run` restores the filters


def with_quiet(function: Callable[..., Any]) -> Callable[..., Any]:
    """A command with the option `--quiet` in addition to its own options.

    typer reads the options from the signature, so the option is added to it. A command that has it already
    is returned as it is.
    """
    signature = inspect.signature(function, eval_str=True)
    if OPTION in signature.parameters:
        return function

    @functools.wraps(function)
    def command(*arguments: Any, **options: Any) -> Any:
        turn_quiet(options.pop(OPTION, False))
        return function(*arguments, **options)

    option = inspect.Parameter(OPTION, inspect.Parameter.KEYWORD_ONLY, default=False, annotation=Quiet)
    command.__signature__ = signature.replace(  # type: ignore[attr-defined]
        parameters=[*signature.parameters.values(), option]
    )
    command.__annotations__ = {**get_type_hints(function, include_extras=True), OPTION: Quiet}
    return command
