"""A server with HTTP processes stops: accepted requests are answered, the port is closed, nothing is left."""

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
from contextlib import suppress

import pytest

import weft
from tests.support.near import assert_near
from tests.support.serving import REQUESTS, TEXT, plain, save_every_kind
from tests.support.serving_processes import Running, running, until
from weft.serving.client import ServerError

pytestmark = pytest.mark.slow
"""Each server is three processes that import torch."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return save_every_kind(tmp_path_factory.mktemp("stopping"))


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
