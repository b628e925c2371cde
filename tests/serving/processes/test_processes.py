"""A server with two HTTP processes answers as `model.predict` does, whatever happens to its processes."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from contextlib import contextmanager, suppress
from itertools import count

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import weft
from tests.support.near import assert_near
from tests.support.serving import REQUESTS, TEXT, plain, post, save_every_kind
from weft.serving.client import ServerError

pytestmark = pytest.mark.slow
"""Each server is three processes that import torch."""

LOGS = count()


class Running:
    """`weft serve --http-processes 2`, as a process.

    Attributes:
        url: its address.
        process: the model's process.
    """

    def __init__(self, folder, *options):
        self.log = folder.parent / f"log-{next(LOGS)}"
        command = [sys.executable, "-m", "weft", "serve", str(folder), "--port", "0", "--threads", "1"]
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                [*command, "--http-processes", "2", *options],
                stderr=log,
                env={**os.environ, "PYTHONUNBUFFERED": "1"},
            )
        until(lambda: self._address() or self.process.poll() is not None, 120)
        self.url = self._address()
        until(lambda: self.client().is_ready() or self.process.poll() is not None, 120)
        assert self.process.poll() is None, self.log.read_text()
        until(lambda: len(self.children()) == 2)

    def _address(self):
        return next((word for word in self.log.read_text().split() if word.startswith("http://127")), None)

    def client(self):
        return weft.Client(self.url)

    def children(self):
        """The process ids of its HTTP processes."""
        return children_of(self.process.pid)

    def count(self, name, **labels):
        """The value of a metric, summed over labels that are not given."""
        total = 0.0
        for line in urllib.request.urlopen(f"{self.url}/metrics").read().decode().splitlines():
            known = all(f'{key}="{value}"' in line for key, value in labels.items())
            if line.partition("{")[0].partition(" ")[0] == name and known:
                total += float(line.rpartition(" ")[2])
        return total


def children_of(pid):
    with open(f"/proc/{pid}/task/{pid}/children") as file:
        return [int(child) for child in file.read().split()]


@contextmanager
def running(folder, *options):
    server = Running(folder, *options)
    try:
        yield server
    finally:
        server.process.send_signal(signal.SIGTERM)
        try:
            server.process.wait(60)
        finally:
            server.process.kill()


def until(condition, seconds=30.0):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


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


def test_accepted_requests_are_answered_after_sigterm(folder):
    server = Running(folder)
    right = weft.load(folder).predict(REQUESTS)
    refused, answered, began = [], [], threading.Event()

    def send(seed):
        draw, client = random.Random(seed), weft.Client(server.url)
        while True:
            chosen = [draw.randrange(len(REQUESTS)) for _ in range(20)]
            try:
                answers = client.predict([REQUESTS[i] for i in chosen])
            except ServerError as error:
                refused.append(error.status)
                return
            except weft.WeftError:  # the server accepts no connection any more
                return
            assert_near([plain(answer) for answer in answers], [right[i] for i in chosen], 1e-5)
            answered.append(len(answers))
            began.set()

    threads = [threading.Thread(target=send, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    assert began.wait(60)
    server.process.send_signal(signal.SIGTERM)
    for thread in threads:
        thread.join(60)
    assert server.process.wait(60) == 0
    text = server.log.read_text()
    assert "Traceback" not in text
    logged = [json.loads(line) for line in text.splitlines() if '"event": "request"' in line]
    statuses = [line["status"] for line in logged if line["path"] == "/v1/predict"]
    assert statuses.count(200) == len(answered)
    assert statuses.count(503) == len(refused)


def test_new_connections_are_refused_as_soon_as_it_stops(folder):
    """While a request that was accepted before is still being read, and is then answered."""
    with running(folder) as server:
        port = int(server.url.rpartition(":")[2])
        body = json.dumps(TEXT).encode()
        length = f"Expect: 100-continue\r\nContent-Length: {len(body)}\r\n"
        with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
            connection.sendall(f"POST /v1/predict HTTP/1.1\r\nHost: x\r\n{length}\r\n".encode())
            assert b"100 Continue" in connection.recv(1000)  # it is being read
            # one that hangs must not keep the port open
            answering = next(child for child in server.children() if holds(child, connection))
            (other,) = (child for child in server.children() if child != answering)
            os.kill(other, signal.SIGSTOP)
            server.process.send_signal(signal.SIGTERM)
            until(lambda: not accepts(port))
            os.kill(other, signal.SIGCONT)
            connection.sendall(body)
            assert b" 200 OK" in connection.recv(1000).splitlines()[0]
        assert server.process.wait(60) == 0
        lines = [line for line in server.log.read_text().splitlines() if not line.startswith("note: ")]
        assert {json.loads(line)["event"] for line in lines} == {"start", "ready", "request"}


def accepts(port):
    try:
        socket.create_connection(("127.0.0.1", port), timeout=10).close()
    except OSError:
        return False
    return True


def holds(pid, connection):
    """Whether a process has the other end of a connection, by the inode in the table of the system."""
    here, there = (f":{address[1]:04X}" for address in (connection.getsockname(), connection.getpeername()))
    with open("/proc/net/tcp") as file:
        rows = [line.split() for line in file]
    (inode,) = (row[9] for row in rows if row[1].endswith(there) and row[2].endswith(here))
    found = []
    for number in os.listdir(f"/proc/{pid}/fd"):
        with suppress(FileNotFoundError):
            found.append(os.readlink(f"/proc/{pid}/fd/{number}"))
    return f"socket:[{inode}]" in found


def test_http_processes_end_with_the_model_process(folder):
    server = Running(folder)
    children = server.children()
    server.process.kill()
    server.process.wait(30)

    def ended(pid):
        try:
            with open(f"/proc/{pid}/stat") as file:
                return file.read().rpartition(")")[2].split()[0] == "Z"
        except FileNotFoundError:
            return True

    until(lambda: all(map(ended, children)))


def test_a_bundle_that_cannot_be_loaded_is_one_message(folder, tmp_path):
    """The damage is noticed by the model's process, when the HTTP processes already run."""
    bundle = shutil.copytree(folder, tmp_path / "bundle")
    file = bundle / "tasks" / "classify.safetensors"
    contents = bytearray(file.read_bytes())
    contents[-1] ^= 1
    file.write_bytes(contents)
    command = [sys.executable, "-m", "weft", "serve", str(bundle), "--http-processes", "2", "--port", "0"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert "serving" in done.stdout + done.stderr
    assert done.returncode in (1, 2)
    assert "classify.safetensors" in done.stderr
    assert "Traceback" not in done.stderr
