"""One replica of a server on Ray: the ASGI application with its own model and batcher.

Requests come from Ray Serve's HTTP proxy, which chooses a replica for each. A replica batches the questions
that it gets as `weft serve` does alone; Ray Serve's own batching is not used. Changes of tasks reach all
replicas by way of `weft.serving.replicas.task_changes`.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

from starlette.requests import Request
from starlette.responses import Response

from weft.errors import WeftError
from weft.serving.engine import Engine
from weft.serving.http.application import App, Receive, Send, in_thread
from weft.serving.http.exchange import json_response
from weft.serving.interface import ServingEngine
from weft.serving.metrics import merged
from weft.serving.replicas.task_changes import Change
from weft.serving.request_log import log_error
from weft.serving.settings import ServeSettings

PAUSE = 1.0
"""The seconds after which a replica asks again, if nobody has answered."""


class Shared(Protocol):
    """The methods of `TaskChanges`, called by way of Ray or directly."""

    def __getattr__(self, name: str) -> Callable[..., Awaitable[Any]]: ...


class ReplicaApp(App):
    """The application of a replica: a changed task reaches all replicas before its client gets an answer.

    Args:
        bundle: the folder of a bundle or of a run.
        settings: the settings of the server.
        name: the name of the replica.
        shared: the changes of all replicas.
    """

    def __init__(self, bundle: str | Path, settings: ServeSettings, name: str, shared: Shared) -> None:
        super().__init__(Engine, bundle, settings)
        self.name, self._shared = name, shared
        self._version = 0
        self._own_turn = False
        self._following: asyncio.Task[None] | None = None
        self.broken: BaseException | None = None

    async def begin(self) -> None:
        """Load the model, make all changes so far, and join the other replicas."""
        self._loop = asyncio.get_running_loop()
        await in_thread(self._load)
        if self.engine.error is not None:
            raise self.engine.error
        version, changes = await self._shared.all_changes()
        await in_thread(replay, self.engine, changes)
        self._version = version
        while (later := await self._shared.join(self.name, self._version)) is not None:
            await self._make(later)
        self._following = asyncio.create_task(self._follow())

    async def put_task(self, name: str, contents: bytes) -> bool:
        """Add or replace a task on all replicas."""
        reloaded: bool = await self._change(
            name, contents, lambda: super(ReplicaApp, self).put_task(name, contents)
        )
        return reloaded

    async def remove_task(self, name: str) -> None:
        """Remove a task on all replicas."""
        await self._change(name, None, lambda: super(ReplicaApp, self).remove_task(name))

    async def _change(self, name: str, contents: bytes | None, work: Callable[[], Awaitable[Any]]) -> Any:
        # shielded: if the client goes away in the middle, all replicas still make the change
        return await asyncio.shield(asyncio.ensure_future(self._in_turn(name, contents, work)))

    async def _in_turn(self, name: str, contents: bytes | None, work: Callable[[], Awaitable[Any]]) -> Any:
        version = await self._shared.turn(self.name)
        while self._version < version:  # the last change of another replica is being made here
            await asyncio.sleep(0.02)
        self._own_turn = True
        try:
            result = await work()
            self._version = await self._shared.publish(self.name, name, contents)
            return result
        except BaseException:
            await self._shared.end_turn(self.name)
            raise
        finally:
            self._own_turn = False

    async def _follow(self) -> None:
        """Make the changes of other replicas, one after another, as long as the replica lives."""
        while self.broken is None:
            try:
                changes = await self._shared.poll(self.name, self._version, self.metrics.text().decode())
            except Exception as error:
                log_error("failure", error)
                await asyncio.sleep(PAUSE)
                continue
            try:
                await self._make(changes)
            except Exception as error:
                # it would answer differently than the others; Ray Serve starts it again
                log_error("failure", error)
                self.broken = error

    async def _make(self, changes: Sequence[Change]) -> None:
        for change in changes:
            if change.version <= self._version:
                continue
            if not self._own_turn:  # else it is the replica's own change
                await in_thread(make, self.engine, change)
            self._version = change.version

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        await receive()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await self.end()
        await send({"type": "lifespan.shutdown.complete"})

    async def end(self) -> None:
        """Leave the other replicas, and answer what is waiting."""
        if self._following is not None:
            self._following.cancel()
        with suppress(Exception):  # the actor may be gone already
            await self._shared.leave(self.name)
        await in_thread(self.engine.close)

    async def _live(self, request: Request) -> Response:
        status = 200 if self.engine.state != "failed" else 503  # no call of other processes: it must answer
        return json_response({"status": self.engine.state, "replica": self.name}, status)

    async def _ready(self, request: Request) -> Response:
        ready = self.engine.state == "ready" and self.broken is None
        facts = {"status": self.engine.state, "replica": self.name, "replicas": len(await self._texts())}
        return json_response(facts, 200 if ready else 503)

    async def _metrics(self, request: Request) -> Response:
        text = merged({**await self._texts(), self.name: self.metrics.text().decode()})
        return Response(text, media_type="text/plain; version=0.0.4; charset=utf-8")

    async def _texts(self) -> dict[str, str]:
        try:
            texts: dict[str, str] = await self._shared.replicas()
            return texts
        except Exception:  # the command that started the server is gone; the replica still answers
            return {self.name: ""}


def make(engine: ServingEngine, change: Change) -> None:
    """Make one change of another replica."""
    if change.contents is not None:
        engine.put_task(change.name, change.contents)
    elif change.name in engine.served.ids:
        engine.remove_task(change.name)


def replay(engine: ServingEngine, changes: Sequence[Change]) -> None:
    """Make all changes that lead from the bundle to the present tasks.

    The last task of an engine cannot be removed. A bundle whose tasks were all replaced by others loses its
    last one at the end.

    Args:
        engine: an engine with the tasks of the bundle.
        changes: as `TaskChanges.all_changes` returns them.
    """
    removed = []
    for change in changes:
        if change.contents is None and len(engine.served.ids) == 1:
            removed.append(change)
        else:
            make(engine, change)
    added = {change.name for change in changes if change.contents is not None}
    for change in removed:
        if change.name not in added:
            make(engine, change)


class ByRay:
    """Calls the methods of an actor: `await shared.poll(…)`.

    Args:
        handle: the actor's handle.
    """

    def __init__(self, handle: Any) -> None:
        self._handle = handle

    def __getattr__(self, name: str) -> Callable[..., Awaitable[Any]]:
        return getattr(self._handle, name).remote


class Replica:
    """The class of Ray Serve's deployment.

    Args:
        bundle: the folder of a bundle or of a run; all nodes must see it.
        settings: the settings of the server.
        actor: the name of the actor of `TaskChanges`.
        folder: the current folder of the command, which relative names start from.
    """

    async def __init__(  # type: ignore[misc]  # Ray Serve awaits it
        self, bundle: str, settings: ServeSettings, actor: str, folder: str
    ) -> None:
        import ray
        from ray import serve

        from weft.utils.ray_start import node_name

        with suppress(OSError):
            os.chdir(folder)
        shared = ByRay(ray.get_actor(actor, namespace=NAMESPACE))
        name = serve.get_replica_context().replica_id.unique_id
        self.application = ReplicaApp(bundle, settings, name, shared)
        try:
            await self.application.begin()
        except WeftError as wrong:
            raise WeftError(f"{FAILED} on {node_name(ray)}: {wrong}") from None

    def __serve_build_asgi_app__(self) -> ReplicaApp:  # Ray Serve's name
        """The application that answers requests."""
        return self.application

    def check_health(self) -> None:
        """Called by Ray Serve again and again; a replica that raises is replaced."""
        if self.application.broken is not None:
            raise RuntimeError("a changed task could not be taken over") from self.application.broken


NAMESPACE = "weft"
"""Ray's namespace of the actor."""
FAILED = "the model could not be loaded"
"""The beginning of the message of a replica that cannot start."""
