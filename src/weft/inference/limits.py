"""The longest request that is answered: a tokenizer needs about 200 bytes of memory per character.

Texts are truncated, or cut into windows, only after they were tokenized. Without a limit, one line of 10 MB
would need 2 GB. No text that is meant to be read comes near the limit: a novel has half a million characters.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from weft.errors import WeftError
from weft.tasks.kinds.candidates import characters_of_choices

if TYPE_CHECKING:
    from weft.tasks.kinds.kind import Inputs
    from weft.tasks.task import Task

CHARACTERS = 1_000_000
"""The most characters of a request, over all of its rows."""
VARIABLE = "WEFT_MAX_CHARACTERS"
"""The environment variable that replaces `CHARACTERS`."""


def most_characters() -> int:
    """Return the most characters that a request may have."""
    value = os.environ.get(VARIABLE)
    if value is None:
        return CHARACTERS
    if not value.isdecimal() or not int(value):
        raise WeftError(
            f"the environment variable {VARIABLE} is {value!r}; expected a number, such as {CHARACTERS}"
        )
    return int(value)


def check_length(task: Task, inputs: Inputs, where: str) -> None:
    """Refuse a request that is too long.

    Args:
        task: its task.
        inputs: the input of the encoder.
        where: the beginning of the message.
    """
    characters, most = sum(map(len, inputs.texts)) + len(inputs.texts) - 1, most_characters()
    if task.choices:
        characters = characters_of_choices(inputs.texts, len(task.texts))
    if characters > most:
        subject = "its texts, repeated for each choice, have" if task.choices else "it has"
        raise too_long(where, characters, most, subject)


def too_long(where: str, characters: int, most: int, subject: str = "it has") -> WeftError:
    """The error for a request that is too long."""
    return WeftError(
        f"{where}: {subject} {characters:,} characters; expected at most {most:,}: shorten or split it, or "
        f"set a higher limit by the environment variable {VARIABLE}; memory grows with it"
    )
