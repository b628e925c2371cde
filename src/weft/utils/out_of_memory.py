"""Running out of memory as a message that says what to lower, instead of a traceback."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from weft.errors import RunFailed

_ON_A_CPU = ("can't allocate memory", "not enough memory")
"""What PyTorch's CPU allocator says, in a plain RuntimeError."""


def ran_out_of_memory(error: BaseException) -> bool:
    """Return whether an exception means that the memory of a GPU or of the machine is used up.

    By the name of its class: torch need not be imported to ask.
    """
    if isinstance(error, MemoryError):
        return True
    if not isinstance(error, RuntimeError):
        return False
    return type(error).__name__ == "OutOfMemoryError" or any(text in str(error) for text in _ON_A_CPU)


def memory_message(error: BaseException) -> str:
    """Return what was requested, in one line: the first sentences of PyTorch's message."""
    text = str(error).split(" If reserved")[0].split(" See documentation")[0].strip().splitlines()
    return text[0] if text else "no details"


@contextmanager
def out_of_memory_explained(advice: str) -> Iterator[None]:
    """Inside, running out of memory raises `RunFailed` with this advice.

    Example:
        >>> with out_of_memory_explained("lower train.batch_size (32)"):
        ...     step()

    Args:
        advice: what to lower.
    """
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        if not ran_out_of_memory(error):
            raise
        raise RunFailed(f"out of memory: {memory_message(error)}\n  {advice}") from error
