"""A server with two HTTP processes answers as `model.predict` does, whatever happens to its processes."""

from __future__ import annotations

import json
import os
import random
import signal
import socket
import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import weft
from tests.support.near import assert_near
from tests.support.serving import REQUESTS, TEXT, plain, post, save_every_kind
from tests.support.serving_processes import running, until
from weft.serving.client import ServerError

pytestmark = pytest.mark.slow
"""Each server is three processes that import torch."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return save_every_kind(tmp_path_factory.mktemp("processes"))


@pytest.fixture(scope="module")
def server(folder):
    with running(folder, "--admin", "--log", "errors") as made:
        made.model = weft.load(folder)
        yield made


@settings(max_examples=15)
@given(chosen=st.lists(st.sampled_from(REQUESTS), min_size=1, max_size=40))
def test_any_mix_is_answered_as_by_predict(server, chosen):
    answers = [plain(answer) for answer in server.client().predict(chosen)]
    assert_near(answers, server.model.predict(chosen), 1e-5)


def test_many_tasks_on_one_text_and_embeddings(server):
    every = server.client().predict_all("the cat sees")
    right = server.model.predict_all("the cat sees")
    assert_near({name: plain(every[name]) for name in right}, right, 1e-5)
    assert_near(server.client().embed(["the cat"]), server.model.embed(["the cat"]).tolist(), 1e-5)


def test_concurrent_clients_get_their_own_answers_and_everything_is_counted(server):
    before = server.count("weft_texts_total")
    requests_before = server.count("weft_requests_total", path="/v1/predict", status="200")
    right, wrong = server.model.predict(REQUESTS), []

    def send(seed):
        draw, client = random.Random(seed), server.client()
        for _ in range(20):
            chosen = [draw.randrange(len(REQUESTS)) for _ in range(draw.randint(1, 10))]
            answers = client.predict([REQUESTS[i] for i in chosen])
            texts.append(len(answers))
            try:
                assert_near([plain(answer) for answer in answers], [right[i] for i in chosen], 1e-5)
            except AssertionError as error:
                wrong.append(str(error))

    texts = []
    threads = [threading.Thread(target=send, args=(seed,)) for seed in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert wrong == []
    assert len(texts) == 16 * 20
    assert server.count("weft_texts_total") - before == sum(texts)
    after = server.count("weft_requests_total", path="/v1/predict", status="200")
    assert after - requests_before == len(texts)


def test_errors_have_their_place_and_reason(server):
    for body, status, words in (
        (b"{", 400, "not JSON"),
        (json.dumps({"task": "nothing", "text": "a"}).encode(), 404, "does not exist"),
        (json.dumps({"requests": [TEXT, {"task": "span", "text": "a"}]}).encode(), 422, "requests[1]"),
    ):
        found, _, answer = post(server.url, body)
        assert found == status
        assert words in answer.decode()
    assert "Traceback" not in server.log.read_text()


def test_a_changed_task_reaches_every_http_process(server, folder):
    """After the response, no connection meets a process that does not know the change."""
    client, file = server.client(), folder / "tasks" / "classify.safetensors"
    right = server.model.predict("classify", "the cat sees")
    for _ in range(3):
        client.remove_task("classify")
        for _ in range(10):  # new connections, which either process may accept
            with pytest.raises(ServerError, match="does not exist"):
                weft.Client(server.url).predict("classify", "the cat")
        assert client.put_task(file)["replaced"] is False
        for _ in range(10):
            answer = weft.Client(server.url).predict("classify", "the cat sees")
            assert_near(plain(answer), right, 1e-5)


def test_a_bad_task_file_is_refused(server, tmp_path):
    (tmp_path / "classify.safetensors").write_bytes(b"nothing")
    with pytest.raises(ServerError) as caught:
        server.client().put_task(tmp_path / "classify.safetensors")
    assert caught.value.status == 422


def test_a_task_is_replaced_under_load(server, folder):
    stop, wrong, right = threading.Event(), [], server.model.predict(REQUESTS)

    def send(seed):
        draw, client = random.Random(seed), server.client()
        while not stop.is_set():
            chosen = [draw.randrange(len(REQUESTS)) for _ in range(4)]
            try:
                answers = client.predict([REQUESTS[i] for i in chosen])
                assert_near([plain(answer) for answer in answers], [right[i] for i in chosen], 1e-5)
            except Exception as error:
                wrong.append(str(error))

    threads = [threading.Thread(target=send, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for name in ("classify", "span", "tag") * 4:
        assert server.client().put_task(folder / "tasks" / f"{name}.safetensors")["replaced"] is True
    stop.set()
    for thread in threads:
        thread.join(60)
    assert wrong == []


def test_requests_of_clients_that_left_are_dropped(server):
    gone = server.count("weft_requests_total", status="gone")
    body = json.dumps({"task": "classify", "texts": ["the cat sees a dog " * 4] * 900}).encode()
    head = f"POST /v1/predict HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n".encode()
    for _ in range(6):
        with socket.create_connection(("127.0.0.1", int(server.url.rpartition(":")[2]))) as connection:
            connection.sendall(head + body)
    # some may be answered before their client is missed
    until(lambda: server.count("weft_requests_total", status="gone") > gone)
    assert plain(server.client().predict("classify", "the cat"))["task"] == "classify"
    until(lambda: server.count("weft_queue_texts") == 0)


def test_an_http_process_that_dies_is_replaced(server):
    """Requests of the dead one are lost with their connections; the other one goes on, and a third starts."""
    dead = server.children()[0]
    os.kill(dead, signal.SIGKILL)
    until(lambda: len(server.children()) == 2 and dead not in server.children(), 60)
    right = server.model.predict("classify", "the cat")
    for _ in range(20):
        until(lambda: server.client().is_ready(), 60)
        assert_near(plain(server.client().predict("classify", "the cat")), right, 1e-5)
    assert "http process ended" in server.log.read_text()


def test_overload_is_refused_and_recovers(folder):
    with running(folder, "--queue", "64", "--max-texts", "64", "--log", "none") as server:
        body = json.dumps({"task": "classify", "texts": ["the cat sees a dog " * 8] * 64}).encode()
        statuses, waits = [], []

        def send():
            for _ in range(10):
                status, headers, _ = post(server.url, body)
                statuses.append(status)
                waits.extend([int(headers["Retry-After"])] if status == 429 else [])

        threads = [threading.Thread(target=send) for _ in range(12)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(120)
        assert len(statuses) == 120
        assert set(statuses) == {200, 429}
        assert all(wait >= 1 for wait in waits)
        assert post(server.url, json.dumps(TEXT).encode())[0] == 200
