"""The exception for a user's mistake, and the "did you mean" of its text."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class WeftError(Exception):
    """A mistake in a call, a setting or a file.

    Its text is complete: where it happened, the value found, what was expected and what to do next.
    The command line prints it without a traceback and leaves with exit code 2.
    """


class RunFailed(WeftError):
    """The work failed although the call was correct, such as a run that diverged. Exit code 1."""


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return a hint with the known word that is most similar to `word`, and a list of all known words.

    Returns, for example, "did you mean 'lora'? known: bitfit, full, lora".
    """
    known = sorted(known)
    near = difflib.get_close_matches(str(word).lower(), known, n=1, cutoff=0.6)
    hint = f"did you mean {near[0]!r}? " if near else ""
    return f"{hint}known: {', '.join(known)}"
