"""What goes wrong outside: overload, slow clients, clients that leave, malformed requests, a stop."""

from __future__ import annotations

import json
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time

import pytest

import weft
from tests.support.every_kind import NAMES
from tests.support.near import assert_near
from tests.support.serving import REQUESTS, TEXT, plain, post, save_every_kind, serving
from weft.serving.client import ServerError


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return save_every_kind(tmp_path_factory.mktemp("faults"))


class Held:
    """Inside, the model answers nothing: the queue fills."""

    def __init__(self, server):
        self._batcher, self._released = server.app.engine.queue, threading.Event()

    def __enter__(self):
        started = threading.Event()

        def hold():
            started.set()
            self._released.wait(30)

        self._batcher.between_batches(hold)
        started.wait(10)
        return self

    def __exit__(self, *_):
        self._released.set()


def in_background(work, *args):
    """Run a function in a thread; returns the thread, and a list that gets its result."""
    results = []
    thread = threading.Thread(target=lambda: results.append(work(*args)), daemon=True)
    thread.start()
    return thread, results


def until(condition, seconds=10.0):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.005)


def test_a_full_queue_refuses_and_recovers(folder):
    with serving(folder, queue=8, texts=8) as server:
        batcher = server.app.engine.queue
        post(server.url, json.dumps(TEXT).encode())
        with Held(server):
            waiting = [in_background(post, server.url, json.dumps(TEXT).encode()) for _ in range(8)]
            until(lambda: batcher.waiting == 8)
            status, headers, body = post(server.url, json.dumps(TEXT).encode())
            assert status == 429
            assert int(headers["Retry-After"]) >= 1
            assert json.loads(body)["error"]["code"] == "overloaded"
        for thread, results in waiting:
            thread.join(10)
            assert results[0][0] == 200
        assert post(server.url, json.dumps(TEXT).encode())[0] == 200


def test_a_request_fails_at_its_deadline_and_the_others_do_not(folder):
    with serving(folder) as server:
        with Held(server):
            short, first = in_background(post, server.url, json.dumps({**TEXT, "timeout_ms": 50}).encode())
            long, second = in_background(post, server.url, json.dumps(TEXT).encode())
            until(lambda: server.app.engine.queue.waiting == 2)
            time.sleep(0.1)
        short.join(10)
        long.join(10)
        assert first[0][0] == 504
        assert json.loads(first[0][2])["error"]["code"] == "deadline"
        assert second[0][0] == 200


def test_requests_of_clients_that_left_are_not_computed(folder):
    with serving(folder) as server:
        computed = server.count("weft_batch_rows_sum")
        body = json.dumps({"task": "classify", "texts": ["the cat"] * 64}).encode()
        with Held(server):
            for _ in range(5):
                connection = socket.create_connection(("127.0.0.1", server.port))
                head = f"POST /v1/predict HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n"
                connection.sendall(head.encode() + body)
                until(lambda: server.app.engine.queue.waiting % 64 == 0 and server.app.engine.queue.waiting)
                connection.close()
            until(lambda: server.count("weft_requests_total", status="gone") == 5)
        status, _, _ = post(server.url, json.dumps(TEXT).encode())
        assert status == 200
        assert server.count("weft_batch_rows_sum") - computed == 1


def test_a_client_that_sends_slowly_is_cut_off(folder):
    with serving(folder, read=0.3) as server:
        with socket.create_connection(("127.0.0.1", server.port)) as connection:
            connection.sendall(b"POST /v1/predict HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{")
            connection.settimeout(10)
            assert b"408" in connection.recv(1000).split(b"\r\n")[0]
        assert post(server.url, json.dumps(TEXT).encode())[0] == 200


def test_limits(folder):
    with serving(folder, body=2000, texts=3, characters=50) as server:
        cases = {
            413: [
                json.dumps({**TEXT, "id": "x" * 3000}),
                json.dumps({"task": "classify", "texts": ["a"] * 4}),
                json.dumps({"requests": [TEXT] * 4}),
                json.dumps({**TEXT, "text": "cat " * 20}),
            ],
            200: [json.dumps({"task": "classify", "texts": ["a"] * 3}), json.dumps(TEXT)],
        }
        for status, bodies in cases.items():
            for body in bodies:
                assert post(server.url, body.encode())[0] == status, body


@pytest.fixture(scope="module")
def server(folder):
    with serving(folder) as running:
        yield running


def test_one_question_that_fails_takes_no_other_with_it(server, monkeypatch):
    """An error of the model in one row: its request fails, those that share the batch are answered."""
    worker = server.app.engine.queue.worker
    real = worker.start

    def start(batch):
        if any(item.question.value[1].get("text") == "not here" for item in batch.items):
            raise RuntimeError("a secret of the server")
        return real(batch)

    monkeypatch.setattr(worker, "start", start)
    with Held(server):
        bodies = [{**TEXT, "text": text} for text in ("the cat", "not here", "a dog")]
        sent = [in_background(post, server.url, json.dumps(body).encode()) for body in bodies]
        until(lambda: server.app.engine.queue.waiting == 3)
    for thread, _ in sent:
        thread.join(10)
    assert [results[0][0] for _, results in sent] == [200, 500, 200]
    assert b"secret" not in sent[1][1][0][2]


def test_a_task_is_replaced_under_load(tmp_path):
    """No request fails; answers stay, and those of the replaced task are the old or the new ones."""
    folder = save_every_kind(tmp_path / "a")
    other = save_every_kind(tmp_path / "b", names=("classify", "regress"))
    old, new = weft.load(folder), weft.load(other)
    task = other / "tasks" / "classify.safetensors"
    with serving(folder, admin=True) as server:
        first, second = old.predict(REQUESTS), {}
        for i, (name, row) in enumerate(REQUESTS):
            if name == "classify":
                second[i] = new.predict([(name, row)])[0]
        stop, wrong = threading.Event(), []

        def send(seed):
            draw, client = random.Random(seed), server.client()
            while not stop.is_set():
                i = draw.randrange(len(REQUESTS))
                try:
                    answer = plain(client.predict([REQUESTS[i]])[0])
                except Exception as error:
                    wrong.append(str(error))
                    continue
                for right in (first[i], second.get(i)):
                    try:
                        assert_near(answer, right, 1e-5)
                        break
                    except (AssertionError, AttributeError, TypeError):
                        continue
                else:
                    wrong.append((REQUESTS[i][0], answer, first[i]))

        threads = [threading.Thread(target=send, args=(seed,)) for seed in range(8)]
        for thread in threads:
            thread.start()
        client = server.client()
        for file in [task, folder / "tasks" / "classify.safetensors"] * 5:
            assert client.put_task(file)["replaced"] is True
        stop.set()
        for thread in threads:
            thread.join(30)
        assert wrong == []
        client.put_task(task)
        for i, answer in second.items():
            assert_near(plain(client.predict([REQUESTS[i]])[0]), answer, 1e-5)


@pytest.mark.slow
def test_accepted_requests_are_answered_after_sigterm(folder, tmp_path):
    """A real process: it stops with exit code 0, and every request that it accepted has its answer."""
    log = (tmp_path / "log").open("w")
    command = [sys.executable, "-m", "weft", "serve", str(folder), "--port", "0", "--threads", "1"]
    process = subprocess.Popen(command, stderr=log, env={**os.environ, "PYTHONUNBUFFERED": "1"})
    try:
        address = lambda: next(  # noqa: E731
            (w for w in (tmp_path / "log").read_text().split() if w.startswith("http://127")), None
        )
        until(address, 60)
        client = weft.Client(address())
        until(client.is_ready, 60)
        right = weft.load(folder).predict(REQUESTS)
        refused, answered, began = [], [], threading.Event()

        def send(seed):
            draw, own = random.Random(seed), weft.Client(address())
            while True:
                chosen = [draw.randrange(len(REQUESTS)) for _ in range(20)]
                try:
                    answers = own.predict([REQUESTS[i] for i in chosen])
                except ServerError as error:
                    refused.append(error.status)
                    return
                except weft.WeftError:  # the server accepts no connection any more
                    return
                assert_near([plain(a) for a in answers], [right[i] for i in chosen], 1e-5)
                answered.append(len(answers))
                began.set()

        threads = [threading.Thread(target=send, args=(seed,)) for seed in range(6)]
        for thread in threads:
            thread.start()
        began.wait(30)
        process.send_signal(signal.SIGTERM)
        for thread in threads:
            thread.join(60)
        assert process.wait(60) == 0
        assert len(answered) >= 1
        assert set(refused) <= {503}
        text = (tmp_path / "log").read_text()
        assert "Traceback" not in text
        # what the server accepted and what clients received: nothing was lost in between
        logged = [json.loads(line) for line in text.splitlines() if '"event": "request"' in line]
        statuses = [line["status"] for line in logged if line["path"] == "/v1/predict"]
        assert statuses.count(200) == len(answered)
        assert statuses.count(503) == len(refused)
    finally:
        process.kill()
        log.close()


def test_every_name_of_a_task_is_served(server):
    assert [about["name"] for about in server.client().tasks()] == list(NAMES)
