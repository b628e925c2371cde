"""The log of a server: one JSON object per line on standard error, without texts unless requested."""

from __future__ import annotations

import json
import sys
import time
import traceback
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from starlette.requests import Request

    from weft.serving.settings import ServeSettings


def log(event: str, **fields: Any) -> None:
    """Write one line.

    Args:
        event: what happened: `start`, `ready`, `request`, `failure`, ….
        fields: further fields.
    """
    line = {"time": round(time.time(), 3), "event": event, **fields}
    print(json.dumps(line, default=str), file=sys.stderr, flush=True)


def log_error(event: str, error: BaseException, **fields: Any) -> None:
    """Write one line about an error of the server, with its traceback as one field."""
    trace = "".join(traceback.format_exception(error))
    log(event, **fields, error=f"{type(error).__name__}: {error}", traceback=trace)


def log_request(
    settings: ServeSettings, request: Request, status: int, began: float, fields: dict[str, Any]
) -> None:
    """Write one line about a request that was answered.

    Args:
        settings: what to log.
        request: the request.
        status: the status of its response.
        began: when it arrived, in the time of `time.perf_counter`.
        fields: further fields; `message` quotes the client, and is left out unless texts are logged.
    """
    if settings.log == "none" or (settings.log == "errors" and status < 400):
        return
    if settings.log_texts:
        fields = {**fields, "body": getattr(request.state, "body", None)}
    else:
        fields = {name: value for name, value in fields.items() if name != "message"}
    log(
        "request",
        method=request.method,
        path=request.state.path[:200],
        status=status,
        ms=round(1000 * (time.perf_counter() - began), 2),
        texts=getattr(request.state, "texts", None),
        client=request.client.host if request.client else None,
        **fields,
    )
