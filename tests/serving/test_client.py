"""The client: what it refuses by itself, and what it says about a server that does not answer."""

from __future__ import annotations

import socket
import threading

import pytest

import weft
from tests.support.serving import save_every_kind, serving


@pytest.mark.parametrize("url", ["localhost:8000", "ftp://x", "http://", ""])
def test_wrong_addresses(url):
    with pytest.raises(weft.WeftError, match="expected an address"):
        weft.Client(url)


def test_nobody_listens():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        client = weft.Client(f"http://127.0.0.1:{taken.getsockname()[1]}")
        with pytest.raises(weft.WeftError, match="no answer from the server"):
            client.tasks()
        assert not client.is_ready()


def test_an_answer_that_is_no_json():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()

        def answer():
            connection, _ = listener.accept()
            connection.recv(1000)
            connection.sendall(b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 5\r\n\r\nsorry")
            connection.close()

        threading.Thread(target=answer, daemon=True).start()
        with pytest.raises(weft.WeftError, match=r"502.*sorry"):
            weft.Client(f"http://127.0.0.1:{listener.getsockname()[1]}").tasks()


def test_forms_of_a_call(tmp_path):
    folder = save_every_kind(tmp_path)
    model = weft.load(folder)
    with serving(folder) as server:
        client = server.client()
        assert isinstance(client.predict("classify", "the cat"), dict)
        assert len(client.predict("classify", ["the cat", "a dog"])) == 2
        assert client.predict("regress", ("the cat", "a dog"))["value"] == pytest.approx(
            model.predict("regress", ("the cat", "a dog"))["value"], abs=1e-5
        )
        assert client.predict("choose", ("the cat", ["a dog", "now"]))["task"] == "choose"
        assert client.predict("tag", [["the", "cat"]])[0]["task"] == "tag"
        assert client.predict([]) == []
        assert client.predict_all([]) == []
        # a connection that the server has closed is opened again
        connection = client._local.connection
        connection.sock.shutdown(socket.SHUT_RDWR)
        assert client.predict("classify", "the cat")["task"] == "classify"
