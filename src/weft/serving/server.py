"""Runs the application with uvicorn, and stops it gracefully."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Literal

from weft.bundle.manifest import check_encoder, find_bundle, read_bundle
from weft.errors import RunFailed, WeftError, words
from weft.interop.onnx.backend import backend_of
from weft.serving.onnx import served_export
from weft.utils.cores import cores
from weft.utils.devices import device_of
from weft.utils.heap import limit_heaps

if TYPE_CHECKING:
    import asyncio

    import uvicorn

    from weft.serving.http.application import App
    from weft.serving.settings import ServeSettings

HTTP_PROCESSES = 4
"""The number of HTTP processes on a GPU, unless it is set."""

LOCAL = ("127.0.0.1", "localhost", "::1")


def serve(
    bundle: str | Path,
    settings: ServeSettings,
    host: str = "127.0.0.1",
    port: int = 8000,
    tell: Callable[[str], None] = print,
    http_processes: int | None = None,
) -> None:
    """Serve a bundle until the process gets SIGINT or SIGTERM; accepted requests are then still answered.

    Args:
        bundle: the folder of a bundle, of a run or of an export to ONNX.
        settings: the settings.
        host: the address to listen at.
        port: the port; 0: any free one.
        tell: called with the address.
        http_processes: how many processes read, tokenize and write; 0: the model's process does it; None:
            four on a GPU, if there are at least eight cores, else 0.
    """
    # before torch is imported: threads of a pass that wait for each other must not spin, because the HTTP
    # server and the tokenizer need the cores
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    tasks = check_serving(bundle, settings, host)
    listener = listen(host, port)
    count = HTTP_PROCESSES if http_processes is None and wants_processes(bundle, settings) else http_processes
    tell(f"serving {tasks} tasks of {bundle} at {url_of(host, listener.getsockname()[1])}")
    try:
        if not device_of(settings.device).startswith("cuda"):
            limit_heaps(2)
        if count:
            from weft.serving.processes.model_process import ModelProcess

            server = ModelProcess(bundle, settings, listener, count)
            with stop_signals(server.stop):
                server.run()
            return
        from weft.serving.engine import Engine
        from weft.serving.http.application import App

        app = App(Engine, bundle, settings)
        run_application(app, settings, listener)
        if app.engine.error is not None:
            raise app.engine.error
    except WeftError:
        raise
    except Exception as error:
        raise RunFailed(f"the model could not be loaded: {type(error).__name__}: {error}") from error


def run_application(app: App, settings: ServeSettings, listener: socket.socket) -> None:
    """Run an application until SIGINT or SIGTERM, or until it calls its `on_failure`.

    Args:
        app: the application.
        settings: its settings.
        listener: the port.
    """
    import uvicorn

    server = uvicorn.Server(http_config(app, settings))

    def stop() -> None:
        server.should_exit = True

    app.on_failure = stop
    server.capture_signals = lambda: stop_signals(server.handle_exit)  # type: ignore[method-assign]
    server.run(sockets=[listener])


def http_config(app: App, settings: ServeSettings) -> uvicorn.Config:
    """How uvicorn runs an application.

    Args:
        app: the application.
        settings: its settings.
    """
    import uvicorn

    from weft.serving.http.log_format import LOG_CONFIG

    http: type[asyncio.Protocol] | Literal["h11"]
    try:
        from weft.serving.http.protocol import LimitedProtocol as http
    except ImportError:  # httptools is missing; h11 has a limit on headers, but none on their time
        http = "h11"
    return uvicorn.Config(
        app,
        http=http,
        h11_max_incomplete_event_size=64 << 10,
        ws="none",  # requests for WebSockets are answered as others; else uvicorn itself would fail
        log_config=LOG_CONFIG,
        log_level="warning",
        access_log=False,
        lifespan="on",
        server_header=False,
        timeout_keep_alive=75,
        timeout_graceful_shutdown=int(settings.deadline) + 5,
    )


def wants_processes(bundle: str | Path, settings: ServeSettings) -> bool:
    """Whether HTTP processes are worth their memory: on a GPU, if there are cores for them.

    On a CPU the model needs the cores itself.
    """
    if settings.precision == "int8" or backend_of(bundle, settings.backend) == "onnx":
        return False
    return cores() >= 2 * HTTP_PROCESSES and device_of(settings.device).startswith("cuda")


def check_serving(bundle: str | Path, settings: ServeSettings, host: str) -> int:
    """Check what can be checked before the model is loaded; returns the number of tasks.

    Args:
        bundle: the folder of a bundle or of a run.
        settings: the settings.
        host: the address to listen at.
    """
    try:
        import prometheus_client  # noqa: F401
        import starlette  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError as wrong:
        raise WeftError(f"serving needs the package {wrong.name!r}: pip install 'weft[serve]'") from None
    if backend_of(bundle, settings.backend) == "onnx":
        count = len(served_export(bundle, settings).tasks)
    else:
        manifest, tasks = read_bundle(find_bundle(bundle), verify=False)
        check_encoder(manifest, settings.encoder)
        count = len(tasks)
    if settings.admin and not settings.admin_keys and host not in LOCAL:
        admin = words("--admin", "admin=True")
        keys = words("--admin-keys FILE", "admin_keys=(KEY,)")
        raise WeftError(
            f"{admin} at {host} would let anybody change the tasks; add a key: {keys}, or listen at 127.0.0.1"
        )
    return count


@contextmanager
def stop_signals(stop: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    """Inside, SIGINT and SIGTERM stop the server.

    uvicorn's own way raises the signal again at the end, and the process would end by it; a server that was
    asked to stop and has answered everything ends with exit code 0.
    """
    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def url_of(host: str, port: int) -> str:
    """The address of a server."""
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def listen(host: str, port: int) -> socket.socket:
    """Open the port now: if it is in use, this is known before the model is loaded."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
    except (OSError, OverflowError) as wrong:
        listener.close()
        reason = getattr(wrong, "strerror", None) or wrong
        choose = words("--host and --port", "host and port")
        raise WeftError(
            f"cannot listen at {host}, port {port}: {reason}; choose another one with {choose}"
        ) from None
    listener.set_inheritable(True)
    return listener
