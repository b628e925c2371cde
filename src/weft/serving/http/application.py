"""The ASGI application: routes, limits and keys. `weft serve` runs it, and so does any ASGI server."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, TypeVar

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from weft.errors import WeftError, words
from weft.serving.batching.ticket import Ticket
from weft.serving.engine import Engine
from weft.serving.http.access import check_access
from weft.serving.http.exchange import GONE, JSON, answers_to, json_response, parsed, read_body
from weft.serving.http.openapi import openapi
from weft.serving.interface import ServingEngine
from weft.serving.metrics import Metrics
from weft.serving.page import HEADERS, PAGE, read_page
from weft.serving.questions.embed_questions import embed_questions
from weft.serving.questions.predict_questions import predict_questions, timeout_of
from weft.serving.questions.question import Many, One
from weft.serving.questions.sample_requests import about_task
from weft.serving.refused import Refused
from weft.serving.request_log import log_error, log_request
from weft.serving.settings import ServeSettings
from weft.utils.version import __version__

T = TypeVar("T")
Scope = dict[str, Any]
Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]
Handler = Callable[[Request], Awaitable[Response]]

OPEN = {*PAGE, "/health/live", "/health/ready"}
"""Paths that need no API key: the page itself holds no data."""


def app(bundle: Any, **settings: Any) -> App:
    """Make the ASGI application of a bundle. The model is loaded when the server starts.

    Example:
        >>> application = weft.serving.app("runs/first")
        >>> uvicorn.run(application, port=8000)

    Args:
        bundle: the folder of a bundle or of a run, or a `Model`.
        settings: as in `ServeSettings`.
    """
    return App(Engine, bundle, ServeSettings.of(settings))


class App:
    """The application. It loads the model in a thread when the server starts (ASGI lifespan).

    Args:
        engine: makes the engine.
        bundle: as in `app`.
        settings: the settings.

    Attributes:
        engine: the model, its tasks and the batcher.
        metrics: what `/metrics` shows.
        on_failure: called if the model cannot be loaded.
    """

    def __init__(self, engine: Callable[..., ServingEngine], bundle: Any, settings: ServeSettings) -> None:
        self.settings, self.metrics = settings, Metrics()
        self.engine: ServingEngine = engine(bundle, settings, self.metrics)
        self.metrics.watch(lambda: self.engine.batcher)
        self.on_failure: Callable[[], None] = lambda: None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._routes: dict[str, dict[str, Handler]] = {
            "/v1/predict": {"POST": self._predict},
            "/v1/embed": {"POST": self._embed},
            "/v1/tasks": {"GET": self._tasks},
            "/health/live": {"GET": self._live},
            "/health/ready": {"GET": self._ready},
            "/metrics": {"GET": self._metrics},
            "/openapi.json": {"GET": self._openapi},
        }
        if settings.page:
            self._routes |= {path: {"GET": self._page} for path in PAGE}
        self._handler = self._with_cors(self._http)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one connection of the ASGI server."""
        if scope["type"] == "lifespan":
            await self._lifespan(receive, send)
        elif scope["type"] == "http":
            await self._handler(scope, receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1000})

    def _with_cors(self, handler: Any) -> Any:
        if not self.settings.cors:
            return handler
        from starlette.middleware.cors import CORSMiddleware

        return CORSMiddleware(
            handler,
            allow_origins=list(self.settings.cors),
            allow_methods=["GET", "POST"],
            allow_headers=["Authorization", "Content-Type"],
        )

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        await receive()
        self.start(asyncio.get_running_loop())
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await asyncio.get_running_loop().run_in_executor(None, self.engine.close)
        await send({"type": "lifespan.shutdown.complete"})

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Load the model in a thread; until it is ready, requests get status 503."""
        self._loop = loop
        threading.Thread(target=self._load, name="weft-load", daemon=True).start()

    def _load(self) -> None:
        self.engine.load_logged(self._wake)
        if self.engine.error is not None:
            self.on_failure()

    def _wake(self, tickets: list[Ticket]) -> None:
        """Wake the requests of finished tickets: once per batch, because a wake-up of the loop is slow."""
        assert self._loop is not None
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            self._loop.call_soon_threadsafe(_finish_all, tickets)

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        began = time.perf_counter()
        # inside another application, or behind a proxy that says so, paths begin with a prefix
        path, method = scope["path"].removeprefix(scope.get("root_path", "")), scope["method"]
        request = Request(scope, receive)
        request.state.path = path
        known = (
            path if path in self._routes else "/v1/tasks/NAME" if path.startswith("/v1/tasks/") else "(other)"
        )
        entry: dict[str, Any] = {}
        try:
            response = await self._routed(request, path, method)
        except Refused as wrong:
            response = Response(wrong.body, wrong.status, wrong.headers, JSON)
            entry = {"code": wrong.code, "message": wrong.message}
        except ClientDisconnect:
            self.metrics.request(known, "gone")
            return
        except Exception as error:
            log_error("failure", error)
            refused = Refused("failed", "the server failed; its log has the error")
            response = Response(refused.body, refused.status, None, JSON)
            entry = {"code": "failed"}
        if response.status_code == GONE:
            self.metrics.request(known, "gone")
            return
        self.metrics.request(known, str(response.status_code))
        log_request(self.settings, request, response.status_code, began, entry)
        with suppress(OSError):
            await response(scope, receive, send)  # type: ignore[arg-type]

    async def _routed(self, request: Request, path: str, method: str) -> Response:
        routes = self._routes.get(path)
        if routes is None and path.startswith("/v1/tasks/") and self.settings.admin:
            routes = {"PUT": self._put_task, "DELETE": self._delete_task}
        if routes is None and path.startswith("/v1/tasks/"):
            option = words("--admin", "admin=True")
            raise Refused("not_allowed", f"this server does not change its tasks; start it with {option}")
        if routes is None:
            raise Refused("not_found", f"there is nothing at {path[:100]}; see /openapi.json")
        if method == "HEAD" and "GET" in routes:
            method = "GET"
        if method not in routes:
            allowed = ", ".join(routes)
            raise Refused(
                "not_allowed", f"{path[:100]} takes {allowed}; found {method}", headers={"Allow": allowed}
            )
        if path not in OPEN:
            check_access(request.scope, self.settings, admin=method in ("PUT", "DELETE"))
        return await routes[method](request)

    async def _predict(self, request: Request) -> Response:
        began = time.perf_counter()
        engine = self._ready_engine()
        body = await self._json(request)
        questions = predict_questions(body, engine.served, self.settings)
        ticket = await answers_to(request, engine.queue, questions, timeout_of(body, self.settings))
        if ticket is None:
            return Response(status_code=GONE)
        self.metrics.answered(_tasks_of(questions, engine.served.tasks), time.perf_counter() - began)
        request.state.texts = len(questions)
        return json_response({"bundle": ticket.sha256, "answers": ticket.answers})

    async def _embed(self, request: Request) -> Response:
        engine = self._ready_engine()
        body = await self._json(request)
        questions = embed_questions(body, engine.served, self.settings)
        ticket = await answers_to(request, engine.queue, questions, timeout_of(body, self.settings))
        if ticket is None:
            return Response(status_code=GONE)
        request.state.texts = len(questions)
        return json_response({"bundle": ticket.sha256, "embeddings": ticket.answers})

    async def _json(self, request: Request) -> Any:
        value = parsed(await read_body(request, self.settings.body, self.settings.read))
        if self.settings.log_texts:
            request.state.body = value
        return value

    def _ready_engine(self) -> ServingEngine:
        if self._loop is None:  # mounted in an application that does not pass on its start
            self.start(asyncio.get_running_loop())
        if self.engine.state == "ready":
            return self.engine
        why = {
            "loading": "the model is being loaded; try again in a few seconds",
            "stopping": "the server is stopping; send the request to another one",
            "failed": "the model could not be loaded; the server's log has the reason",
        }[self.engine.state]
        raise Refused("not_ready", why, headers={"Retry-After": "2"})

    async def _tasks(self, request: Request) -> Response:
        served = self._ready_engine().served
        tasks = [about_task(served.tasks[number]) for number in served.ids.values()]
        limits = {name: getattr(self.settings, name) for name in ("texts", "characters")}
        limits["body_bytes"] = self.settings.body
        return json_response({"bundle": served.sha256, "tasks": tasks, "limits": limits})

    async def _live(self, request: Request) -> Response:
        status = 200 if self.engine.state != "failed" else 503
        return json_response({"status": self.engine.state}, status)

    async def _ready(self, request: Request) -> Response:
        ready = self.engine.state == "ready"
        return json_response({"status": self.engine.state}, 200 if ready else 503)

    async def _metrics(self, request: Request) -> Response:
        return Response(self.metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")

    async def _openapi(self, request: Request) -> Response:
        served = self._ready_engine().served
        tasks = [served.tasks[number] for number in served.ids.values()]
        return json_response(openapi(tasks, __version__, self.settings))

    async def _page(self, request: Request) -> Response:
        contents, kind = read_page(request.state.path)
        return Response(contents, 200, HEADERS, kind)

    async def _put_task(self, request: Request) -> Response:
        name = _task_name(request)
        contents = await read_body(request, TASK_BYTES, 10 * self.settings.read)
        known = name in self._ready_engine().served.ids
        try:
            reloaded = await self.put_task(name, contents)
        except WeftError as wrong:
            raise Refused("bad_input", str(wrong)) from None
        served = self.engine.served
        if name not in served.ids:
            raise Refused("conflict", f"task {name!r} was added, and meanwhile removed by another request")
        about = about_task(served.tasks[served.ids[name]])
        result = {"bundle": served.sha256, "task": about, "replaced": known, "reloaded": reloaded}
        return json_response(result, 200 if known else 201)

    async def _delete_task(self, request: Request) -> Response:
        name = _task_name(request)
        self._ready_engine().served.id_of(name, "path")
        try:
            await self.remove_task(name)
        except WeftError as wrong:
            raise Refused("conflict", str(wrong)) from None
        return json_response({"bundle": self.engine.served.sha256, "removed": name})

    async def put_task(self, name: str, contents: bytes) -> bool:
        """Add or replace a task; see `Engine.put_task`."""
        return await in_thread(self.engine.put_task, name, contents)

    async def remove_task(self, name: str) -> None:
        """Remove a task; see `Engine.remove_task`."""
        await in_thread(self.engine.remove_task, name)


TASK_BYTES = 1 << 30
"""The most bytes of a task's file."""


async def in_thread(work: Callable[..., T], *arguments: Any) -> T:
    """Call a function in a thread, and wait for its result."""
    return await asyncio.get_running_loop().run_in_executor(None, work, *arguments)


def _finish_all(tickets: list[Ticket]) -> None:
    for ticket in tickets:
        ticket.finish()


def _tasks_of(questions: list[One | Many], tasks: Any) -> list[str]:
    names: list[str] = []
    for question in questions:
        numbers = [question.task] if isinstance(question, One) else question.inputs
        names += [tasks[number].name for number in numbers]
    return names


def _task_name(request: Request) -> str:
    return str(request.state.path.removeprefix("/v1/tasks/"))
