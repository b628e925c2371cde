"""What the application needs of an engine and of its queue: both may be in another process."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Literal, Protocol

if TYPE_CHECKING:
    from weft.serving.batching.ticket import Ticket
    from weft.serving.tasks.served_tasks import ServedTasks

State = Literal["loading", "ready", "stopping", "failed"]
"""The state of an engine: `loading`, then `ready`, then `stopping`; or `failed`."""


class Queue(Protocol):
    """A queue of questions.

    Attributes:
        served: the tasks.
        wake: called with finished tickets.
    """

    served: ServedTasks
    wake: Callable[[list[Ticket]], None]

    @property
    def waiting(self) -> int:
        """How many questions wait."""

    @property
    def rate(self) -> float:
        """Questions per second while the model is busy; 0 if it is not known."""

    def submit(self, ticket: Ticket) -> None:
        """Put the questions of a ticket into the queue; `Refused` if it takes no more."""

    def forget(self, ticket: Ticket) -> None:
        """Drop the questions of a ticket whose client has left."""


class ServingEngine(Protocol):
    """An engine: the model, its tasks and a queue, here (`Engine`) or in another process (`HttpEngine`).

    Attributes:
        state: its state.
        error: why the model could not be loaded; None unless it failed.
    """

    state: State
    error: BaseException | None

    @property
    def batcher(self) -> Queue | None:
        """The queue; None while the model is being loaded."""

    @property
    def queue(self) -> Queue:
        """The queue of an engine that is ready."""

    @property
    def served(self) -> ServedTasks:
        """The tasks that are served now."""

    def load_logged(self, wake: Callable[[list[Ticket]], None]) -> None:
        """Load the model, and write to the log what happens; `error` says whether it failed.

        Args:
            wake: called with finished tickets from the first request on.
        """

    def put_task(self, name: str, contents: bytes) -> bool:
        """Add or replace a task; returns whether the model was loaded again."""

    def remove_task(self, name: str) -> None:
        """Remove a task."""

    def close(self) -> None:
        """Answer what is waiting, then stop."""
