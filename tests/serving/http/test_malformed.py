"""Malformed requests: each gets a status, a place and a reason, never a traceback."""

from __future__ import annotations

import json
import random
import urllib.error
import urllib.request

import pytest

from tests.support.serving import TEXT, post, save_every_kind, serving

JUNK = [
    None,
    True,
    0,
    -1.5,
    1e400,
    "",
    " ",
    "cat",
    "\ud800",
    "a\0b",
    [],
    [[]],
    {},
    {"a": 1},
    ["x", 1],
    "ü" * 50,
]


NO_JSON = [
    *(f', "id": {text}' for text in ("NaN", "-Infinity", "1e999", "[" * 200 + "]" * 200, '{"a":' * 150)),
    f', "timeout_ms": -1{"0" * 400}',
    ', "timeout_ms": NaN',
]
"""Ends of a body that no JSON encoder writes, or that could not be sent back."""

MISPLACED = [
    {"requests": [TEXT], "id": 3},
    {"requests": [{**TEXT, "timeout_ms": 5}]},
    {"requests": [TEXT], "task": "classify"},
]
"""Keys in a place where they would have no effect."""


def malformed(draw):
    """One malformed body: broken JSON, wrong types, unknown tasks, wrong inputs, deep nesting."""
    kind = draw.randrange(9)
    if kind == 0:
        text = json.dumps({"requests": [TEXT, TEXT]})
        return text[: draw.randrange(len(text) - 1)].encode()
    if kind == 1:
        return bytes(draw.randrange(256) for _ in range(draw.randrange(1, 60)))
    if kind == 2:
        return b"[" * draw.choice((1, 100, 100_000))
    if kind == 3:
        return json.dumps({"task": draw.choice(["x", *JUNK]), "text": "the cat"}).encode()
    if kind == 4:
        value = draw.choice([junk for junk in JUNK if junk != "cat" and junk != "ü" * 50 and junk != "a\0b"])
        return json.dumps({"task": "classify", "text": value}).encode()
    if kind == 5:
        junk = draw.choice([junk for junk in JUNK if junk != []])
        return json.dumps({"requests": [TEXT, junk]}).encode()
    if kind == 6:
        return (json.dumps(TEXT)[:-1] + draw.choice(NO_JSON) + "}").encode()
    if kind == 7:
        inner = {**TEXT, draw.choice(["task", "tasks", "timeout_ms"]): "classify"}
        return json.dumps(draw.choice([{"task": "classify", "texts": [inner]}, *MISPLACED])).encode()
    key = draw.choice(["tasks", "texts", "timeout_ms", "requests"])
    value = draw.choice([junk for junk in JUNK if junk is not None or key != "timeout_ms"])
    body = {**TEXT, key: value} if key == "timeout_ms" else {"task": "classify", key: value}
    return json.dumps(body).encode()


def check_malformed(server, count):
    draw = random.Random(7)
    for _ in range(count):
        data = malformed(draw)
        status, _, body = post(server.url, data)
        assert 400 <= status < 500, (status, data[:200])
        error = json.loads(body)["error"]
        assert error["message"]
        assert "Traceback" not in error["message"]
        assert "site-packages" not in error["message"]
        assert str(server.folder) not in error["message"]
    assert post(server.url, json.dumps(TEXT).encode())[0] == 200


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = save_every_kind(tmp_path_factory.mktemp("malformed"))
    with serving(folder) as running:
        running.folder = folder
        yield running


def test_malformed_requests_get_a_reason(server):
    check_malformed(server, 300)


@pytest.mark.slow
def test_five_thousand_malformed_requests(server):
    check_malformed(server, 5000)


@pytest.mark.parametrize(
    "body", [*(json.dumps(TEXT)[:-1] + end + "}" for end in NO_JSON), *map(json.dumps, MISPLACED)]
)
def test_what_has_no_effect_or_no_answer_is_refused(server, body):
    status, _, answer = post(server.url, body.encode())
    assert status in (400, 422), body[:200]
    assert json.loads(answer)["error"]["message"]


def test_any_id_that_json_has_is_sent_back(server):
    deep: object = 1
    for _ in range(90):
        deep = [deep]
    for identity in ("a", 0, True, [1, {"b": None}], "\ud800", {"x": "\udfff ü"}, deep):
        _, _, answer = post(server.url, json.dumps({**TEXT, "id": identity}).encode())
        assert json.loads(answer)["answers"][0]["id"] == identity
    body = {"task": "classify", "id": 7, "texts": ["the cat", {"text": "a dog", "id": 8}]}
    _, _, answer = post(server.url, json.dumps(body).encode())
    assert [own["id"] for own in json.loads(answer)["answers"]] == [7, 8]


def test_a_timeout_of_any_size_is_the_deadline_at_most(server):
    for milliseconds in (10**400, 1e300, 1e9):
        assert post(server.url, json.dumps({**TEXT, "timeout_ms": milliseconds}).encode())[0] == 200


def test_embedding_refuses_keys_that_it_does_not_know(server):
    request = urllib.request.Request(f"{server.url}/v1/embed", b'{"text": "a", "normalise": true}')
    with pytest.raises(urllib.error.HTTPError) as caught:
        urllib.request.urlopen(request)
    assert caught.value.code == 422
    assert "normalise" in json.loads(caught.value.read())["error"]["message"]


@pytest.mark.parametrize("encoding", ["gzip", "br"])
def test_a_compressed_body_is_refused(server, encoding):
    headers = {"Content-Encoding": encoding}
    request = urllib.request.Request(f"{server.url}/v1/predict", json.dumps(TEXT).encode(), headers)
    with pytest.raises(urllib.error.HTTPError) as caught:
        urllib.request.urlopen(request)
    assert caught.value.code == 415
    assert encoding in json.loads(caught.value.read())["error"]["message"]


@pytest.mark.parametrize("path", ["/nothing", "/v1/predict/", "/v1/tasks/classify", "/..%2f..%2fetc/passwd"])
def test_unknown_paths(server, path):
    with pytest.raises(urllib.error.HTTPError) as caught:
        urllib.request.urlopen(server.url + path)
    assert caught.value.code in (404, 405)
    assert json.loads(caught.value.read())["error"]["code"] in ("not_found", "not_allowed")


def test_the_place_of_a_mistake_is_named(server):
    cases = [
        ({"requests": [TEXT, {"task": "no", "text": "x"}]}, "requests[1].task", "does not exist"),
        ({"requests": [TEXT, {"task": "span", "text": "x"}]}, "requests[1]", "'text_a', 'text_b'"),
        ({"task": "classify", "texts": ["a", 3]}, "texts[1]", "expected a string"),
        ({"tasks": ["classify", "no"], "text": "x"}, "tasks", "does not exist"),
        ({"requests": [{"task": "no", "texts": ["a", "b"]}]}, "requests[0].task", "does not exist"),
        ({"requests": [{"tasks": ["no"], "texts": ["a"]}]}, "requests[0].tasks", "does not exist"),
        ({"tasks": "all", "text": 3}, None, "no task can read"),
        ({"text": "x"}, None, "tasks: classify"),
        ({"task": "classify", "tasks": "all", "text": "x"}, None, "not both"),
        ({**TEXT, "timeout_ms": "soon"}, "timeout_ms", "milliseconds"),
    ]
    for body, where, words in cases:
        _, _, answer = post(server.url, json.dumps(body).encode())
        error = json.loads(answer)["error"]
        assert error.get("where") == where, body
        assert words in error["message"]
