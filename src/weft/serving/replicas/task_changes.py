"""The changes of tasks that several replicas of a server share: an actor on Ray, one for all replicas.

One replica changes its tasks at a time: it takes a turn, changes its own model, and publishes the change. The
others ask for news all the time, make the same change and report it with their next question. Publishing ends
when every replica has made the change, and then the client gets its answer. A replica that starts later makes
all changes before it joins; only then it is given requests. A replica that has not asked for a while is not
waited for: it is dead, or hangs, and starts again with all changes.

The class knows nothing of Ray: its methods are coroutines, and any event loop can run them.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

POLL = 2.0
"""The seconds after which a question for news is answered although there is none."""
GONE = 20.0
"""The seconds after which a replica that has not asked is no longer waited for."""


@dataclass(frozen=True)
class Change:
    """A task that was added, replaced or removed.

    Attributes:
        version: the number of the change, from 1.
        name: the name of the task.
        contents: its file; None: it was removed.
    """

    version: int
    name: str
    contents: bytes | None


@dataclass
class Member:
    """A replica that gets requests.

    Attributes:
        version: the last change that it has made.
        seen: when it last asked.
        metrics: its metrics, as text.
    """

    version: int
    seen: float
    metrics: str = ""


class TaskChanges:
    """The changes since the server started, and who has made them.

    Args:
        clock: seconds; replaced in tests.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._changes: list[Change] = []
        self._version = 0
        self._members: dict[str, Member] = {}
        self._owner: str | None = None
        self._news = asyncio.Condition()

    async def all_changes(self) -> tuple[int, list[Change]]:
        """The number of the last change, and the changes that lead from the bundle to the present tasks."""
        return self._version, list(self._changes)

    async def join(self, replica: str, version: int) -> list[Change] | None:
        """Become a member; returns the changes that are to be made first, or None if there are none left.

        Args:
            replica: the name of the replica.
            version: the last change that it has made.
        """
        if version < self._version:
            return self._after(version)
        self._members[replica] = Member(version, self._clock())
        return None

    async def leave(self, replica: str) -> None:
        """End the membership."""
        async with self._news:
            self._members.pop(replica, None)
            self._owner = None if self._owner == replica else self._owner
            self._news.notify_all()

    async def poll(self, replica: str, version: int, metrics: str = "") -> list[Change]:
        """Report the last change that was made, and wait a little for later ones.

        Args:
            replica: the name of the replica.
            version: the last change that it has made.
            metrics: its metrics.
        """
        async with self._news:
            self._members[replica] = Member(version, self._clock(), metrics)
            self._news.notify_all()
            await self._wait(lambda: version < self._version, POLL)
            if replica in self._members:
                self._members[replica].seen = self._clock()
            return self._after(version)

    async def turn(self, replica: str) -> int:
        """Wait until no other replica changes tasks; returns the number of the last change."""
        async with self._news:
            while self._owner is not None and self._is_there(self._owner):
                await self._wait(lambda: self._owner is None, 1.0)
            self._owner = replica
            return self._version

    async def end_turn(self, replica: str) -> None:
        """Let others change tasks: the change was refused."""
        async with self._news:
            if self._owner == replica:
                self._owner = None
                self._news.notify_all()

    async def publish(self, replica: str, name: str, contents: bytes | None) -> int:
        """Tell all replicas of a change that the caller has made, and wait until they have made it too.

        Args:
            replica: the name of the caller, which has the turn.
            name: the name of the task.
            contents: its file; None: it was removed.

        Returns:
            The number of the change.
        """
        async with self._news:
            if self._owner != replica:
                raise RuntimeError(f"{replica} has lost its turn")
            self._version += 1
            self._note(Change(self._version, name, contents))
            if replica in self._members:
                self._members[replica].version = self._version
            self._news.notify_all()
            version = self._version
            while not self._made_by_all(version):
                await self._wait(lambda: self._made_by_all(version), 1.0)
            self._owner = None
            self._news.notify_all()
            return version

    async def replicas(self) -> dict[str, str]:
        """The metrics of each replica that is there."""
        return {name: member.metrics for name, member in self._members.items() if self._is_there(name)}

    def _note(self, change: Change) -> None:
        """Keep what leads to the present tasks: of a task that was replaced, only its last file."""
        same = [index for index, old in enumerate(self._changes) if old.name == change.name]
        adds = [index for index in same if self._changes[index].contents is not None]
        if change.contents is not None and adds:  # a replaced task keeps its place among the others
            self._changes[adds[0]] = change
            return
        if change.contents is None:
            self._changes = [old for old in self._changes if old.name != change.name]
        self._changes.append(change)

    def _after(self, version: int) -> list[Change]:
        return sorted((c for c in self._changes if c.version > version), key=lambda change: change.version)

    def _is_there(self, replica: str) -> bool:
        member = self._members.get(replica)
        return member is not None and self._clock() - member.seen < GONE

    def _made_by_all(self, version: int) -> bool:
        return all(
            member.version >= version for name, member in self._members.items() if self._is_there(name)
        )

    async def _wait(self, condition: Callable[[], bool], seconds: float) -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(self._news.wait_for(condition), seconds)
