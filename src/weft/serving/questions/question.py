"""Questions: what a server is asked, read and checked; made by `predict_questions` and `embed_questions`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from weft.tasks.kinds.kind import Inputs


@dataclass(frozen=True, slots=True)
class One:
    """A text, or a pair, for one task.

    Attributes:
        where: the place in the request's body, for messages.
        value: what the client sent; it is read again if the task is replaced before it is answered.
        task: the id of the task.
        inputs: the input of the encoder.
        version: the version of the task that the input was read for.
        id: copied to the answer; None: nothing.
    """

    where: str
    value: Any
    task: int
    inputs: Inputs
    version: int
    id: Any = None


@dataclass(frozen=True, slots=True)
class Many:
    """A text, or a pair, for many tasks.

    Attributes:
        where: as in `One`.
        value: as in `One`.
        names: the requested tasks; None: all tasks that can read the text.
        inputs: the input of the encoder for each task, by id.
        version: the version of the table of tasks.
        id: as in `One`.
    """

    where: str
    value: Any
    names: tuple[str, ...] | None
    inputs: dict[int, Inputs]
    version: int
    id: Any = None


@dataclass(frozen=True, slots=True)
class Embed:
    """A text, or a pair, to be embedded.

    Attributes:
        text: the text, or a pair as a tuple.
        task: the name of the task whose adapters are used; None: the encoder without adapters.
        normalize: whether to divide the vector by its norm.
    """

    text: str | tuple[str, str]
    task: str | None
    normalize: bool


Question = One | Many | Embed
