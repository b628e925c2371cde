"""The client: what it refuses by itself, the forms of a call, and what else may be at its address."""

from __future__ import annotations

import socket
import threading

import pytest

import weft
from tests.support.answering import answering
from tests.support.near import assert_near
from tests.support.serving import save_every_kind, serving
from weft.serving.client import ServerError

KEY = "s3cret-" + "k" * 20
TASKS = {"tasks": [], "bundle": ""}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return save_every_kind(tmp_path_factory.mktemp("client"))


@pytest.fixture(scope="module")
def server(folder):
    with serving(folder) as running:
        running.model = weft.load(folder)
        yield running


@pytest.mark.parametrize(
    "url",
    [
        *("localhost:8000", "ftp://x", "http://", "", "http://localhost:99999", "http://localhost:0"),
        *("http://localhost:port", "http://a..b", f"http://{'a' * 64}.org", "http://[::1", "http://a b"),
        *("http://localhost:8000 ", "http://localhost?x=1", "http://localhost/#x", 8000, None),
    ],
)
def test_wrong_addresses(url):
    with pytest.raises(weft.WeftError, match="expected an address"):
        weft.Client(url)


def test_a_password_in_an_address_is_not_shown():
    with pytest.raises(weft.WeftError, match=r"before '@'.*key=") as caught:
        weft.Client("http://anna:s3cret@localhost:8000")
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize("key", [KEY, None])
def test_addresses_and_keys_that_are_right(server, key):
    for url in (server.url, f"{server.url}/", server.url.replace("127.0.0.1", "localhost")):
        assert weft.Client(url, key).is_ready()
    assert not weft.Client(f"{server.url}/somewhere else/é", key).is_ready()
    weft.Client("https://[::1]", key)


@pytest.mark.parametrize(
    ("key", "found"),
    [
        (f"{KEY}\n", f"a line end as character {len(KEY) + 1} of {len(KEY) + 1}"),
        (f"{KEY[:7]} {KEY[7:]}", "a space as character 8"),
        (f"{KEY}é", "outside ASCII"),
        (f"{KEY}\0", "a control character"),
        ("", "an empty text"),
        (KEY.encode(), "type bytes"),
    ],
)
def test_wrong_keys_are_refused_and_not_shown(key, found):
    with pytest.raises(weft.WeftError, match=found) as caught:
        weft.Client(key=key)
    assert "s3cret" not in str(caught.value)
    assert caught.value.__cause__ is None


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"timeout": 0}, "more than 0"),
        ({"timeout": "5"}, "found '5'"),
        ({"timeout": float("inf")}, "at most"),
        ({"retries": -1}, "0 or more"),
        ({"retries": 1.5}, "whole number"),
    ],
)
def test_wrong_numbers(values, words):
    with pytest.raises(weft.WeftError, match=words):
        weft.Client(**values)


class Frame:
    """What looks like a data frame."""

    columns = ("text",)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda c: c.predict("sentiment"), r"'sentiment' without texts; write client\.predict\('TASK'"),
        (lambda c: c.predict("sentiment", None), "without texts"),
        (lambda c: c.predict({"task": "a"}), r"requests: expected a list of \(task, text\)"),
        (lambda c: c.predict(None), "requests: expected a list"),
        (lambda c: c.predict(["a text"]), r"requests\[0\]: expected \(task, text\); found 'a text'"),
        (lambda c: c.predict([("a", "x"), ("a", "x", "y")]), r"requests\[1\]: expected"),
        (lambda c: c.predict([(1, "x")]), r"requests\[0\]: expected"),
        (lambda c: c.predict(["a"], ["x"]), r"the name of a task; found \['a'\]"),
        (lambda c: c.predict("a", 5), "texts: expected a text or a list of texts; found 5"),
        (lambda c: c.predict("a", b"x"), "texts: expected a text"),
        (lambda c: c.predict("a", Frame()), "found a data frame; pass a column"),
        (lambda c: c.predict("a", ["x", {1, 2}]), r"texts\[1\]: cannot be sent as JSON.*set"),
        (lambda c: c.predict([("a", {"text": float("nan")})]), r"requests\[0\]: cannot be sent as JSON"),
        (lambda c: c.predict("a", "x", timeout_ms={1}), "timeout_ms: cannot be sent"),
        (lambda c: c.predict_all(None), "texts: expected"),
        (lambda c: c.predict_all("x", 5), "tasks: expected 'all' or a list of names; found 5"),
        (lambda c: c.embed(None), "texts: expected"),
        (lambda c: c.embed({"text": "x"}), "pairs of texts; found {'text': 'x'}"),
        (lambda c: c.put_task("nofile"), "file 'nofile': cannot be read: No such file.*NAME.safetensors"),
        (lambda c: c.put_task("."), "file '.': cannot be read"),
        (lambda c: c.put_task("a\0b"), "cannot be read: embedded null"),
        (lambda c: c.put_task(5), "file: found 5"),
        (lambda c: c.remove_task(""), "the name of a task; found ''"),
        (lambda c: c.remove_task(None), "the name of a task; found None"),
    ],
)
def test_wrong_calls_are_refused_before_anything_is_sent(call, words):
    with answering((200, {}, TASKS)) as other:
        with pytest.raises(weft.WeftError, match=words):
            call(weft.Client(other.url))
        assert other.paths == []


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


@pytest.mark.parametrize(
    ("status", "body", "words"),
    [
        (200, [1], r"expected 'tasks' of a server of weft; found \[1\]; check the address"),
        (200, {"models": []}, "expected 'tasks'"),
        (404, {"error": "no such model"}, "404.*no such model"),
        (404, ["no"], "404.*no"),
        (301, {"tasks": []}, "301"),
        (200, b"<html>", "200.*<html>"),
    ],
)
def test_another_server_at_the_address(status, body, words):
    with answering((status, {}, body)) as other, pytest.raises(weft.WeftError, match=words):
        weft.Client(other.url).tasks()


def test_one_answer_for_each_text():
    short = answering((200, {}, {"answers": [{"task": "a"}]}))
    with short as other, pytest.raises(weft.WeftError, match="expected 2 answers of a server"):
        weft.Client(other.url).predict("a", ["x", "y"])


def test_forms_of_a_call(server):
    client, model = server.client(), server.model
    assert isinstance(client.predict("classify", "the cat"), dict)
    assert len(client.predict("classify", ["the cat", "a dog"])) == 2
    assert len(client.predict("classify", iter(["the cat", "a dog"]))) == 2
    assert len(client.predict("classify", model_texts := {"the cat": 1, "a dog": 2}.keys())) == len(
        model_texts
    )
    assert client.predict("regress", ("the cat", "a dog"))["value"] == pytest.approx(
        model.predict("regress", ("the cat", "a dog"))["value"], abs=1e-5
    )
    assert client.predict("choose", ("the cat", ["a dog", "now"]))["task"] == "choose"
    assert client.predict("tag", [["the", "cat"]])[0]["task"] == "tag"
    assert client.predict("classify", {"text": "the cat"}) == client.predict("classify", "the cat")
    assert client.predict([]) == []
    assert client.predict("classify", []) == []
    assert client.predict_all([]) == []
    assert list(client.predict_all("the cat", "classify")) == ["classify"]


def test_arrays_and_columns_are_lists_of_texts(server):
    import numpy as np
    import pyarrow as pa

    client, texts = server.client(), ["the cat", "a dog"]
    expected = client.predict("classify", texts)
    assert client.predict("classify", np.array(texts)) == expected
    assert client.predict("classify", pa.chunked_array([texts])) == expected
    assert client.predict("classify", pa.table({"text": texts})) == expected
    assert len(client.embed(np.array(texts))) == 2


def test_a_key_of_a_dict_does_not_choose_another_task(server):
    client = server.client()
    assert client.predict("classify", {"text": "the cat", "task": "multilabel"})["task"] == "classify"
    with pytest.raises(ServerError) as caught:  # not an answer to the first of them
        client.predict("classify", {"texts": ["the cat", "a dog"]})
    assert caught.value.status == 422


def test_a_tuple_is_a_list_of_texts_where_texts_are_embedded(server):
    client, model = server.client(), server.model
    pair = ("the cat", "a dog")
    assert client.embed([]) == []
    assert len(model.embed([])) == 0
    assert_near(client.embed(pair), model.embed(pair).tolist(), 1e-5)
    assert len(client.embed(pair)) == 2
    assert_near(client.embed([pair]), model.embed([pair]).tolist(), 1e-5)
    assert isinstance(client.embed("the cat")[0], float)


def test_a_connection_that_the_server_has_closed_is_opened_again(server):
    client = server.client()
    client.predict("classify", "the cat")
    client._local.connection.sock.shutdown(socket.SHUT_RDWR)
    assert client.predict("classify", "the cat")["task"] == "classify"
