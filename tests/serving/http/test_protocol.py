"""Limits below the application: headers, unfinished requests, what is no HTTP; uvicorn's log lines."""

from __future__ import annotations

import asyncio
import json
import logging
import logging.config
import socket
import sys
import threading
from contextlib import contextmanager

import pytest
import uvicorn

from weft.serving.http.log_format import LOG_CONFIG, JsonLines
from weft.serving.http.protocol import LimitedProtocol
from weft.serving.server import http_config
from weft.serving.settings import ServeSettings

LIMIT = LimitedProtocol.limit


class Echo:
    """An application that returns the size of each body.

    Attributes:
        held: `/held` is answered when this is set.
        waiting: whether a request for `/held` has come.
    """

    def __init__(self):
        self.held, self.waiting = threading.Event(), threading.Event()

    async def __call__(self, scope, receive, send):
        if scope["type"] == "lifespan":
            for moment in ("startup", "shutdown"):
                await receive()
                await send({"type": f"lifespan.{moment}.complete"})
            return
        assert scope["type"] == "http"
        size, more = 0, scope["path"] != "/early"
        if scope["path"] == "/held":
            self.waiting.set()
            await asyncio.get_running_loop().run_in_executor(None, self.held.wait, 30)
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                return
            size, more = size + len(message["body"]), message["more_body"]
        body = b"%d" % size
        headers = [(b"content-length", b"%d" % len(body))]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})


class Connection:
    """A connection of a client."""

    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=30)
        self._file = self.socket.makefile("rb")

    def send(self, *parts):
        for part in parts:
            self.socket.sendall(part)

    def answer(self):
        """The status, the headers and the body of the next response."""
        status = int(self._file.readline().split()[1])
        headers = {}
        while line := self._file.readline().strip():
            name, _, value = line.decode().partition(": ")
            headers[name] = value
        return status, headers, self._file.read(int(headers["content-length"]))

    def is_at_its_end(self):
        """Wait until the server closes it; whether nothing else came."""
        try:
            return self._file.read() == b""
        except ConnectionResetError:
            return True


@contextmanager
def running(application, loop):
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    config = http_config(application, ServeSettings())
    config.loop = loop
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    port = listener.getsockname()[1]
    while not server.started:
        assert thread.is_alive()
        threading.Event().wait(0.01)
    try:
        yield port
    finally:
        application.held.set()
        server.should_exit = True
        thread.join(30)
        assert not thread.is_alive()


@pytest.fixture(scope="module", params=["uvloop", "asyncio"])
def server(request):
    application = Echo()
    with running(application, request.param) as port:
        yield application, port


@pytest.fixture
def connect(server):
    made = []

    def connect():
        made.append(Connection(server[1]))
        return made[-1]

    yield connect
    for each in made:
        each.socket.close()


@pytest.fixture
def hurry(monkeypatch):
    """From its call on, clients have little time."""
    return lambda: monkeypatch.setattr(LimitedProtocol, "seconds", 0.1)


def head(*lines, path="/", method="GET"):
    return b"".join([f"{method} {path} HTTP/1.1\r\nHost: x\r\n".encode(), *lines, b"\r\n"])


def error_of(answer):
    status, headers, body = answer
    assert headers["content-type"] == "application/json"
    assert headers["connection"] == "close"
    return status, json.loads(body)["error"]["code"]


@pytest.mark.parametrize(
    "sent",
    [
        [head(b"A: " + b"x" * LIMIT + b"\r\n")],
        [b"GET / HTTP/1.1\r\nA: ", *[b"x" * 1000] * (LIMIT // 1000 + 1)],
        [b"GET / HTTP/1.1\r\n", *[b"A: b\r\n" * 1000] * 12],
        [b"GET /", *[b"x" * 1000] * (LIMIT // 1000 + 1)],
        [b"\r\n" * LIMIT],
        [head(b"A: " + b"x" * (20 << 20))],
    ],
    ids=["at once", "in parts", "many", "path", "empty lines", "20 MB"],
)
def test_headers_that_are_too_large_are_refused(connect, sent):
    connection = connect()
    connection.send(*sent)
    assert error_of(connection.answer()) == (431, "headers_too_large")
    assert connection.is_at_its_end()


def test_headers_within_the_limit_are_read(connect):
    connection = connect()
    for _ in range(3):
        connection.send(head(b"A: " + b"x" * (LIMIT - 1000) + b"\r\n"))
        assert connection.answer()[0] == 200


def test_requests_sent_together_may_be_longer_than_the_limit(connect):
    connection = connect()
    body = b"x" * 10_000
    one = head(b"A: " + b"x" * 1000 + b"\r\n", b"Content-Length: 10000\r\n", method="POST") + body
    connection.send(one * 40)
    assert [connection.answer()[2] for _ in range(40)] == [b"10000"] * 40


def test_bodies_have_no_limit_here(connect):
    connection = connect()
    connection.send(head(b"Content-Length: 3000000\r\n", method="POST"), b"x" * 3_000_000)
    assert connection.answer()[2] == b"3000000"
    chunked = head(b"Transfer-Encoding: chunked\r\n", method="POST")
    connection.send(chunked, b"1\r\nx\r\n" * 100_000, b"0\r\nA: b\r\n\r\n")
    assert connection.answer()[2] == b"100000"


@pytest.mark.parametrize("end", [b"0\r\n" + b"A: b\r\n" * LIMIT, b"0\r\nA: " + b"x" * (8 * LIMIT)])
def test_headers_behind_a_body_have_a_limit(connect, end):
    connection = connect()
    connection.send(head(b"Transfer-Encoding: chunked\r\n", method="POST"), b"1\r\nx\r\n", end)
    assert error_of(connection.answer()) == (431, "headers_too_large")
    assert connection.is_at_its_end()


@pytest.mark.parametrize("sent", [b"", b"GET / HTTP/1.1\r\nHost", b"\r\n"])
def test_unfinished_headers_do_not_keep_a_connection(connect, hurry, sent):
    former = connect()
    former.send(head())
    assert former.answer()[0] == 200
    hurry()
    connection = connect()
    connection.send(sent)
    assert connection.is_at_its_end()
    former.send(sent or b"G")
    assert former.is_at_its_end()


def test_a_connection_may_be_idle_after_a_request_and_while_one_is_answered(connect, server, hurry):
    application, _ = server
    application.held.clear()
    application.waiting.clear()
    idle, busy = connect(), connect()
    idle.send(head())
    assert idle.answer()[0] == 200
    busy.send(head(path="/held"))
    assert application.waiting.wait(30)
    hurry()
    busy.send(b"GET / HTTP")
    for _ in range(3):  # so long that the others would be closed, too
        assert connect().is_at_its_end()
    application.held.set()
    assert busy.answer()[0] == 200
    idle.send(head())
    assert idle.answer()[0] == 200


def test_a_body_that_is_never_complete_does_not_keep_a_connection(connect, hurry):
    connection = connect()
    connection.send(head())
    assert connection.answer()[0] == 200
    hurry()
    connection.send(head(b"Content-Length: 100\r\n", path="/early", method="POST") + b"x")
    assert connection.answer()[0] == 200
    assert connection.is_at_its_end()


def test_a_connection_goes_on_if_the_body_is_complete_after_the_answer(connect):
    connection = connect()
    connection.send(head(b"Content-Length: 100000\r\n", path="/early", method="POST"))
    assert connection.answer()[0] == 200
    connection.send(b"x" * 100_000, head())
    assert connection.answer()[0] == 200


@pytest.mark.parametrize(
    "sent",
    [
        b"\x16\x03\x01\x00\xee\x01\x00",
        b"GET nothing\r\n\r\n",
        head(b"Content-Length: x\r\n"),
        head(b"Transfer-Encoding: chunked\r\n", method="POST") + b"zz\r\n",
    ],
    ids=["TLS", "request line", "header", "chunk"],
)
def test_what_is_no_http_gets_json(connect, sent):
    connection = connect()
    connection.send(sent)
    assert error_of(connection.answer()) == (400, "bad_request")
    assert connection.is_at_its_end()


def test_a_request_is_answered_before_what_is_no_http_behind_it(connect, server):
    application, _ = server
    application.held.clear()
    application.waiting.clear()
    connection = connect()
    connection.send(head(path="/held"))
    assert application.waiting.wait(30)
    connection.send(b"nothing\r\n\r\n")
    application.held.set()
    assert connection.answer()[0] == 200
    assert connection.is_at_its_end()


@pytest.mark.parametrize("protocol", ["websocket", "h2c"])
def test_a_request_to_upgrade_is_answered_in_http(connect, protocol):
    upgrade = b"Connection: Upgrade\r\nUpgrade: " + protocol.encode() + b"\r\n"
    connection = connect()
    for _ in range(2):
        connection.send(head(upgrade, b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: eA==\r\n"))
        assert connection.answer()[0] == 200


def test_without_httptools_headers_have_a_limit(monkeypatch):
    monkeypatch.setitem(sys.modules, "weft.serving.http.protocol", None)
    config = http_config(Echo(), ServeSettings())
    assert config.http == "h11"
    assert config.h11_max_incomplete_event_size == LIMIT


def test_lines_of_uvicorn_are_json(capsys):
    logging.config.dictConfig(LOG_CONFIG)
    logging.getLogger("uvicorn.error").warning("a message\nof %d lines", 2)
    try:
        raise ValueError("what is wrong")
    except ValueError:
        logging.getLogger("asyncio").exception("failed")
    first, second = map(json.loads, capsys.readouterr().err.splitlines())
    assert first.pop("time") > 0
    assert first == {"event": "http", "level": "warning", "message": "a message\nof 2 lines"}
    assert second["error"] == "ValueError: what is wrong"
    assert "Traceback" in second["traceback"]


def test_a_line_may_hold_anything():
    record = logging.LogRecord("uvicorn", logging.ERROR, "", 0, "\ud800 %s", ("\x1b",), None)
    assert json.loads(JsonLines().format(record))["message"] == "\ud800 \x1b"
