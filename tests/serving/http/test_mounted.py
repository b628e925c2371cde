"""The application inside another one: under a prefix, and without the start that an ASGI server announces."""

from __future__ import annotations

import asyncio
import json

import pytest
from starlette.applications import Starlette
from starlette.routing import Mount

from tests.support.serving import TEXT, save_every_kind
from weft.serving.http.application import app


async def answer_to(application, method, path, body=b"", root_path=""):
    """Call an ASGI application; returns the status and the body."""
    sent = []
    messages = [{"type": "http.request", "body": body}]
    never = asyncio.Event()

    async def receive():
        if not messages:
            await never.wait()
        return messages.pop()

    async def send(message):
        sent.append(message)

    scope = {
        "type": "http",
        "method": method,
        "path": path,
        "root_path": root_path,
        "query_string": b"",
        "headers": [],
        "client": ("127.0.0.1", 1),
    }
    await application(scope, receive, send)
    return sent[0]["status"], json.loads(b"".join(message.get("body", b"") for message in sent))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return save_every_kind(tmp_path_factory.mktemp("mounted"))


@pytest.mark.parametrize("mounted", [True, False])
def test_the_first_request_loads_the_model_and_paths_have_a_prefix(folder, mounted):
    own = app(folder, log="none", threads=1)
    application = Starlette(routes=[Mount("/weft", own)]) if mounted else own
    root_path = "" if mounted else "/weft"

    async def run():
        answers = []
        while not answers or answers[-1][0] == 503:
            answers.append(
                await answer_to(application, "POST", "/weft/v1/predict", json.dumps(TEXT).encode(), root_path)
            )
            await asyncio.sleep(0.01)
        answers.append(await answer_to(application, "GET", "/weft/nothing", root_path=root_path))
        return answers

    try:
        *loading, ready, nothing = asyncio.run(run())
    finally:
        own.engine.close()
    assert loading[0][1]["error"]["code"] == "not_ready"
    assert ready[0] == 200
    assert ready[1]["answers"][0]["task"] == TEXT["task"]
    assert nothing[0] == 404
    assert "at /nothing;" in nothing[1]["error"]["message"]


def test_a_websocket_is_closed(folder):
    sent = []

    async def send(message):
        sent.append(message)

    async def receive():
        return {"type": "websocket.connect"}

    asyncio.run(app(folder)({"type": "websocket", "path": "/v1/predict", "headers": []}, receive, send))
    assert sent == [{"type": "websocket.close", "code": 1000}]
