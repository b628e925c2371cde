"""A real server in a thread of this process, and its page in the browser."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.support.browser import SCREENS, Opened


@contextmanager
def serving(bundle: Path, **settings: Any) -> Iterator[str]:
    """The address of a server of a bundle, which is ready and is stopped at the end."""
    import uvicorn

    from weft.serving import app

    application = app(bundle, log="none", threads=1, device="cpu", **settings)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = uvicorn.Server(uvicorn.Config(application, log_level="warning", access_log=False, lifespan="on"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
        thread.start()
        try:
            while application.engine.state == "loading":
                time.sleep(0.05)
            assert application.engine.state == "ready", application.engine.error
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join(60)


@contextmanager
def page_of(started: Any, address: str, screen: str = "wide", tab: str = "try", ready: bool = True) -> Iterator[Opened]:
    """The server's page on a screen, at one of its tabs.

    Args:
        started: the browser.
        address: of the server.
        screen: one of `SCREENS`.
        tab: `try`, `batch` or `status`.
        ready: whether to wait until the tab is shown.
    """
    context = started.new_context(**SCREENS[screen], accept_downloads=True)
    try:
        shown = Opened(context.new_page())
        shown.page.set_default_timeout(20_000)
        shown.page.on("console", lambda message: shown.errors.append(message.text))
        shown.page.on("pageerror", lambda wrong: shown.errors.append(str(wrong)))
        shown.page.on("request", lambda request: shown.requests.append(request.url))
        shown.page.goto(f"{address}/#{tab}")
        if ready:
            shown.page.wait_for_selector(f"#{tab}:not([hidden])")
        yield shown
    finally:
        context.close()
