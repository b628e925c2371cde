"""The exception for a user's mistake, and the "did you mean" of its text."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar


class WeftError(Exception):
    """A mistake in a call, a setting or a file.

    Its text is complete: where it happened, the value found, what was expected and what to do next.
    The command line prints it without a traceback and leaves with exit code 2.
    """


class RunFailed(WeftError):
    """The work failed although the call was correct, such as a run that diverged. Exit code 1."""


class Diverged(RunFailed):
    """The loss, the gradients or the weights of a run, or outputs in its evaluation, are not finite.

    Attributes:
        everywhere: whether all processes of the run raise it at the same point, so that they can still work
            together; else only one of them knows.
    """

    def __init__(self, message: str, everywhere: bool = False) -> None:
        super().__init__(message, everywhere)
        self.everywhere = everywhere

    def __str__(self) -> str:
        return str(self.args[0])


_on_command_line = False
_in_run_file: ContextVar[bool] = ContextVar("_in_run_file", default=False)


@contextmanager
def command_line() -> Iterator[None]:
    """Inside, messages name flags and keys of a run file; elsewhere, arguments of Python. See `words`."""
    # one for all threads: a process is either a command or a Python program
    global _on_command_line
    before, _on_command_line = _on_command_line, True
    try:
        yield
    finally:
        _on_command_line = before


@contextmanager
def run_file_words() -> Iterator[None]:
    """Inside, messages name keys of a run file, which a Python program may read too."""
    token = _in_run_file.set(True)
    try:
        yield
    finally:
        _in_run_file.reset(token)


def words(command_line: str, python: str) -> str:
    """Return the words for the caller of a message: those of the command line, or those of Python.

    Example:
        >>> f"{folder} holds a run; continue it with {words('--resume', 'resume=True')}"
        'runs/a holds a run; continue it with resume=True'
    """
    return command_line if _on_command_line or _in_run_file.get() else python


def train_key(key: str) -> str:
    """Return the name of a setting of `train`: `train.KEY` of a run file, or the argument of `Training`."""
    return words(f"train.{key}", f"Training({key}=…)")


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return a hint with the known word that is most similar to `word`, and a list of all known words.

    Returns, for example, "did you mean 'lora'? known: bitfit, full, lora".
    """
    known = sorted(known)
    near = difflib.get_close_matches(str(word).lower(), known, n=1, cutoff=0.6)
    hint = f"did you mean {near[0]!r}? " if near else ""
    return f"{hint}known: {', '.join(known)}"
