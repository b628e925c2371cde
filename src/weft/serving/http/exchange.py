"""What a handler does with an HTTP request: read its body, wait for its answers, write a response."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

from starlette.requests import ClientDisconnect
from starlette.responses import Response

from weft.serving.batching.ticket import Ticket
from weft.serving.refused import Refused

if TYPE_CHECKING:
    from starlette.requests import Request

    from weft.serving.interface import Queue
    from weft.serving.questions.question import Question

JSON = "application/json"
DEEPEST = 100
"""The most levels of a body: deeper ones could not be copied to another process."""
ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False)
_ASCII = json.JSONEncoder(allow_nan=False)

Outcome = Literal["answered", "left", "late"]
"""How waiting for answers ends: they are there, the client has left, or it took too long."""

PATIENCE = 0.05
"""Seconds before a waiting client is watched. Most have their answer by then, and a task for each costs."""

GONE = 499
"""The status of a request whose client has left; it is never sent."""


async def read_body(request: Request, most: int, seconds: float) -> bytes:
    """Read the body of a request.

    Args:
        request: the request.
        most: the most bytes that it may have.
        seconds: how long the client may take to send it.

    Raises:
        Refused: it is too large, or takes too long.
    """
    headers = dict(request.scope["headers"])
    length = headers.get(b"content-length", b"0")
    if (encoding := headers.get(b"content-encoding", b"identity").strip().lower()) != b"identity":
        raise Refused(
            "unsupported",
            f"expected a body that is not compressed; found Content-Encoding {str(encoding)[1:40]}",
        )
    if length.isdigit() and int(length[:20]) > most:
        raise Refused("too_large", f"the body has {int(length[:20]):,} bytes; expected at most {most:,}")
    chunks, size = [], 0
    try:
        async with asyncio.timeout(seconds):
            more = True
            while more:
                message = await request.receive()
                if message["type"] == "http.disconnect":
                    raise ClientDisconnect
                more = message.get("more_body", False)
                chunks.append(message.get("body", b""))
                size += len(chunks[-1])
                if size > most:
                    raise Refused("too_large", f"the body has more than {most:,} bytes")
    except TimeoutError:
        raise Refused("too_slow", f"the body did not arrive within {seconds:g} s") from None
    return chunks[0] if len(chunks) == 1 else b"".join(chunks)


def parsed(body: bytes) -> Any:
    """Parse a JSON body, in UTF-8, UTF-16 or UTF-32; `Refused` if it is none, or nested deeply."""
    try:
        text = body.decode(json.detect_encoding(body), "surrogatepass")
    except UnicodeDecodeError as wrong:
        raise Refused("bad_json", f"the body is not in UTF-8: {wrong.reason} at byte {wrong.start}") from None
    try:
        value = _DECODER.decode(text)
    except (ValueError, RecursionError) as wrong:
        reason = "nested too deeply" if isinstance(wrong, RecursionError) else str(wrong)[:200]
        raise Refused("bad_json", f"the body is not JSON: {reason}") from None
    if text.count("[") + text.count("{") > DEEPEST and _is_deep(value):
        raise Refused("bad_json", f"the body is nested too deeply; expected at most {DEEPEST} levels")
    return value


def _is_deep(value: Any) -> bool:
    """Whether JSON has more than `DEEPEST` levels of lists and objects."""
    level = [value]
    for _ in range(DEEPEST):
        inner: list[Any] = []
        for item in level:
            if isinstance(item, dict):
                inner += item.values()
            elif isinstance(item, list):
                inner += item
        if not inner:
            return False
        level = inner
    return any(isinstance(item, dict | list) for item in level)


def _finite(number: str) -> float:
    value = float(number)
    if not math.isfinite(value):
        raise ValueError(f"{number[:40]} is no number that can be stored")
    return value


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


_DECODER = json.JSONDecoder(parse_float=_finite, parse_constant=_no_constant)


async def answers_to(
    request: Request, queue: Queue, questions: Sequence[Question], seconds: float
) -> Ticket | None:
    """Put questions into the queue and wait for their answers; None if the client has left meanwhile.

    Args:
        request: the request, which is watched for a client that leaves.
        queue: answers the questions.
        questions: the questions.
        seconds: how long they may take.

    Raises:
        Refused: a question failed, or took too long.
    """
    loop = asyncio.get_running_loop()
    outcome: asyncio.Future[Outcome] = loop.create_future()
    watching: list[asyncio.Task[None]] = []

    def settle(how: Outcome) -> None:
        if not outcome.done():
            outcome.set_result(how)

    def watch() -> None:
        watching.append(loop.create_task(_left(request)))
        watching[0].add_done_callback(lambda _: settle("left"))

    ticket = Ticket(questions, seconds, lambda: settle("answered"))
    queue.submit(ticket)
    # the batcher notices the deadline of a question that waits; the second timer ends what runs too long
    timers = loop.call_later(PATIENCE, watch), loop.call_later(seconds + 1.0, settle, "late")
    how: Outcome = "left"
    try:
        how = await outcome
    finally:
        if how != "answered":
            queue.forget(ticket)
        for timer in timers:
            timer.cancel()
        for task in watching:
            task.cancel()
    if how == "late":
        raise Refused("deadline", f"no answer within {seconds:g} s")
    if ticket.error is not None:
        raise ticket.error
    return ticket if how == "answered" else None


async def _left(request: Request) -> None:
    """Return when the client has left."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


def json_response(value: Any, status: int = 200) -> Response:
    """A response with a JSON body."""
    try:
        body = ENCODER.encode(value).encode()
    except UnicodeEncodeError:  # half of a surrogate pair, in the client's own `id`
        body = _ASCII.encode(value).encode()
    return Response(body, status, None, JSON)
