"""In how many requests the client asks, and when it asks again."""

from __future__ import annotations

import socket
from types import SimpleNamespace

import pytest

import weft
from tests.support.answering import answering
from tests.support.near import assert_near
from tests.support.serving import REQUESTS, plain, save_every_kind, serving
from weft.serving import client as client_module
from weft.serving.client import ServerError
from weft.serving.client_calls import AT_ONCE, UNKNOWN, Limits, limits_of

TASKS = {"tasks": [], "bundle": ""}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return save_every_kind(tmp_path_factory.mktemp("client"))


@pytest.fixture(scope="module")
def server(folder):
    with serving(folder) as running:
        running.model = weft.load(folder)
        yield running


@pytest.fixture
def pauses(monkeypatch):
    """The seconds that clients wait before they try again. `on_pause` is called instead of waiting."""
    seen = SimpleNamespace(seconds=[], on_pause=lambda: None)

    def sleep(seconds):
        seen.seconds.append(seconds)
        seen.on_pause()

    monkeypatch.setattr(client_module, "time", SimpleNamespace(sleep=sleep))
    return seen


def free_port():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


def requests_to(server, status="200", path="/v1/predict"):
    return server.count("weft_requests_total", path=path, status=status)


def test_more_texts_than_the_server_takes_are_sent_in_portions(folder, server):
    chosen = (REQUESTS * 2)[:100]
    right = server.model.predict(chosen)
    with serving(folder, texts=7, queue=7) as small:
        client = small.client()
        assert_near([plain(answer) for answer in client.predict(chosen)], right, 1e-5)
        assert requests_to(small) == 15  # 100 / 7
        assert requests_to(small, path="/v1/tasks") == 1
        texts = ["the cat", ("a dog", "now")] * 10
        assert_near(client.embed(texts), server.model.embed(texts).tolist(), 1e-5)
        assert requests_to(small, path="/v1/embed") == 3
        assert len(client.predict_all(["the cat"] * 15, ["classify"])) == 15
        assert requests_to(small, path="/v1/tasks") == 1  # asked once
        assert requests_to(small, "413") == 0


def test_the_limits_are_read_when_a_few_texts_are_too_many(folder):
    with serving(folder, texts=7) as small:
        client = small.client()
        assert AT_ONCE.texts > 9
        assert len(client.predict("classify", ["the cat"] * 9)) == 9
        assert [requests_to(small, "413"), requests_to(small, path="/v1/tasks")] == [1, 1]
        client._limits = Limits(1000, 1 << 20)  # as if the server was started again, with a lower limit
        assert len(client.predict("classify", ["the cat"] * 50)) == 50
        assert [requests_to(small, "413"), requests_to(small, path="/v1/tasks")] == [2, 2]


def test_few_texts_are_sent_without_asking_for_limits(server):
    before = requests_to(server, path="/v1/tasks")
    server.client().predict("classify", ["the cat"] * AT_ONCE.texts)
    assert requests_to(server, path="/v1/tasks") == before


def test_portions_are_shorter_than_the_longest_body(folder, server):
    texts = [f"the cat sees {'a dog ' * n}" for n in range(1, 41)]
    with serving(folder, body=500) as small:
        client = small.client()
        right = server.model.predict("classify", texts)
        answers = client.predict("classify", texts, timeout_ms=20_000)
        assert_near([plain(answer) for answer in answers], right, 1e-5)
        assert requests_to(small) > 10
        assert requests_to(small, "413") == 0
        # a text that is too long by itself cannot be sent in portions
        with pytest.raises(ServerError, match="the body has") as caught:
            client.predict("classify", ["the cat", "a dog " * 100])
        assert caught.value.status == 413


def test_errors_name_the_place_in_the_call(folder):
    with serving(folder, texts=7) as small:
        client = small.client()
        with pytest.raises(ServerError, match=r"requests\[24\]") as caught:
            client.predict("classify", [*["the cat"] * 24, 5, *["a dog"] * 20])
        assert caught.value.where.startswith("requests[24]")
        with pytest.raises(ServerError) as caught:
            client.embed([*["the cat"] * 39, ""])
        assert caught.value.where == "texts[39]"


def test_a_text_that_is_too_long_is_refused_once(server):
    before = requests_to(server, "413")
    with pytest.raises(ServerError, match="characters") as caught:
        server.client().predict("classify", ["the cat", "x" * 200_000])
    assert caught.value.status == 413
    assert requests_to(server, "413") == before + 1


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ({"limits": {"texts": 5, "characters": 9, "body_bytes": 100}}, Limits(5, 100)),
        ({"limits": {"texts": 0, "body_bytes": 100}}, Limits(UNKNOWN.texts, 100)),
        ({"limits": {"texts": "5"}}, UNKNOWN),
        ({"limits": 5}, UNKNOWN),
        ({}, UNKNOWN),
        ([], UNKNOWN),
    ],
)
def test_limits_that_a_server_does_not_tell(answer, expected):
    assert limits_of(answer) == expected


def test_a_proxy_that_passes_on_one_path_alone():
    answers = {"answers": [{"task": "a"}] * 40}
    with answering((404, {}, b"no"), (200, {}, answers)) as other:
        assert len(weft.Client(other.url).predict("a", ["x"] * 40)) == 40
        assert other.paths == ["/v1/tasks", "/v1/predict"]


def test_a_server_that_is_not_ready_is_asked_again(server, pauses):
    engine = server.app.engine
    pauses.on_pause = lambda: setattr(engine, "state", "ready" if len(pauses.seconds) == 2 else "loading")
    engine.state = "loading"
    try:
        client = weft.Client(server.url, retries=3)
        assert not client.is_ready()
        assert pauses.seconds == []
        assert client.predict("classify", "the cat")["task"] == "classify"
        assert all(2.0 <= seconds <= 2.2 for seconds in pauses.seconds)  # its Retry-After
        assert len(pauses.seconds) == 2
    finally:
        engine.state = "ready"


def test_a_server_without_room_is_asked_again(server, pauses, monkeypatch):
    queue = server.app.engine.queue
    monkeypatch.setattr(queue, "_queue", 0)
    with pytest.raises(ServerError) as caught:
        weft.Client(server.url, retries=2).predict("classify", "the cat")
    assert caught.value.status == 429
    assert len(pauses.seconds) == 2
    assert min(pauses.seconds) >= caught.value.retry_after >= 1
    pauses.on_pause = lambda: setattr(queue, "_queue", 100)
    assert weft.Client(server.url, retries=1).predict("classify", "the cat")["task"] == "classify"
    monkeypatch.setattr(queue, "_queue", 0)
    with pytest.raises(ServerError):
        server.client().predict("classify", "the cat")
    assert len(pauses.seconds) == 3


def test_a_server_that_is_started_later(pauses):
    port = free_port()
    client = weft.Client(f"http://127.0.0.1:{port}", retries=10)
    started = []

    def start():
        if len(pauses.seconds) == 3:
            started.append(answering((200, {}, TASKS), port=port))
            started[0].__enter__()

    pauses.on_pause = start
    try:
        assert client.tasks() == []
    finally:
        started[0].__exit__(None, None, None)
    assert [pytest.approx(seconds, rel=0.11) for seconds in pauses.seconds] == [0.5, 1.0, 2.0]


def test_other_errors_are_not_repeated(server, pauses):
    client = weft.Client(server.url, retries=5)
    with pytest.raises(ServerError):
        client.predict("nothing", "the cat")
    with pytest.raises(weft.WeftError, match="no answer"):
        weft.Client(f"http://127.0.0.1:{free_port()}").tasks()
    with answering((503, {"Retry-After": "61"}, b"maintenance")) as other:
        with pytest.raises(ServerError, match="maintenance") as caught:
            weft.Client(other.url, retries=5).tasks()
        assert caught.value.retry_after == 61
    assert pauses.seconds == []


def test_a_proxy_without_retry_after(pauses):
    with answering((503, {}, b"no backend"), (503, {}, b"no backend"), (200, {}, TASKS)) as other:
        assert weft.Client(other.url, retries=2).tasks() == []
    assert [pytest.approx(seconds, rel=0.11) for seconds in pauses.seconds] == [0.5, 1.0]
