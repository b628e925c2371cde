"""Who may do what: keys, web pages of other origins, and changes of tasks."""

from __future__ import annotations

import http.client
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.serving import TEXT, save_every_kind, serving
from weft.errors import WeftError
from weft.serving.http.access import check_access
from weft.serving.http.keys import KEYS, read_keys
from weft.serving.refused import Refused
from weft.serving.settings import ServeSettings

KEY, ADMIN = "a" * 16, "b" * 16
LOOPBACK = ("127.0.0.1", 5)
PAGE = "http://evil.example"


def scope_of(client=LOOPBACK, **headers):
    return {"client": client, "headers": [(name.encode(), text.encode()) for name, text in headers.items()]}


def code_of(scope, settings, admin=False):
    """The code with which a request is refused; None: it is not."""
    try:
        check_access(scope, settings, admin)
    except Refused as refused:
        return refused.code
    return None


@pytest.mark.parametrize(
    ("origin", "host", "cors", "code"),
    [
        (None, "any.example", (), None),
        ("http://models.example:8000", "models.example:8000", (), None),
        ("https://MODELS.example", "models.EXAMPLE", (), None),
        (PAGE, "models.example", (), "wrong_origin"),
        ("null", "models.example", (), "wrong_origin"),
        ("http://[", "models.example", (), "wrong_origin"),
        ("", "", (), None),
        (PAGE, "models.example", (PAGE,), None),
        (PAGE, "models.example", ("http://other.example",), "wrong_origin"),
        (PAGE, "models.example", ("*",), None),
    ],
)
def test_pages_of_other_origins_send_no_requests(origin, host, cors, code):
    headers = {"host": host} | ({} if origin is None else {"origin": origin})
    assert code_of(scope_of(**headers), ServeSettings(cors=cors)) == code


@pytest.mark.parametrize(
    ("client", "host", "code"),
    [
        (LOOPBACK, "localhost:8000", None),
        (LOOPBACK, "127.0.0.1", None),
        (("::1", 5), "[::1]:8000", None),
        (LOOPBACK, "evil.example:8000", "no_key"),
        (LOOPBACK, "localhost.evil.example", "no_key"),
        (LOOPBACK, "[", "no_key"),
        (LOOPBACK, "", "no_key"),
        (("10.0.0.7", 5), "localhost", "no_key"),
        (("", 5), "localhost", "no_key"),
        (None, "localhost", "no_key"),
    ],
)
def test_without_admin_keys_tasks_are_changed_from_this_machine_alone(client, host, code):
    scope = scope_of(client, host=host)
    assert code_of(scope, ServeSettings(admin=True), admin=True) == code
    assert code_of(scope, ServeSettings(admin=True)) is None


@given(
    key=st.sampled_from([None, "", KEY, ADMIN, KEY + "x"]),
    keys=st.sampled_from([(), (KEY,)]),
    admin=st.booleans(),
)
def test_an_admin_key_does_everything_and_a_key_changes_no_task(key, keys, admin):
    headers = {"host": "localhost"} | ({} if key is None else {"authorization": f"Bearer {key}"})
    settings = ServeSettings(admin=True, keys=keys, admin_keys=(ADMIN,))
    allowed = key == ADMIN or (not admin and (key == KEY or not keys))
    expected = None if allowed else "wrong_key" if key else "no_key"
    assert code_of(scope_of(**headers), settings, admin) == expected


def test_keys_without_admin_keys_are_refused():
    with pytest.raises(WeftError, match="clients without a key change tasks; add"):
        ServeSettings(admin=True, keys=(KEY,))


@pytest.mark.parametrize("value", ["", " , ,", "\n"])
def test_a_variable_without_a_key_is_an_error(value, monkeypatch):
    monkeypatch.setenv(KEYS, value)
    with pytest.raises(WeftError, match="is set and holds no key"):
        read_keys("--keys", None, KEYS)


def answer_to(server, method, path, body=b"", **headers):
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
    try:
        connection.request(method, path, body, {"Content-Type": "application/json", **headers})
        response = connection.getresponse()
        return response.status, json.loads(response.read())
    finally:
        connection.close()


def test_a_real_server_keeps_foreign_pages_out(tmp_path):
    body = json.dumps(TEXT).encode()
    with serving(save_every_kind(tmp_path), admin=True) as server:
        own = f"http://127.0.0.1:{server.port}"
        assert answer_to(server, "POST", "/v1/predict", body, Origin=own)[0] == 200
        status, answer = answer_to(server, "POST", "/v1/predict", body, Origin=PAGE)
        assert (status, answer["error"]["code"]) == (403, "wrong_origin")
        assert "cors=(ORIGIN,)" in answer["error"]["message"]
        # a name that a stranger has made point here, as in DNS rebinding
        headers = {"Host": "evil.example", "Origin": PAGE}
        status, answer = answer_to(server, "DELETE", "/v1/tasks/classify", **headers)
        assert (status, answer["error"]["code"]) == (401, "no_key")
        assert "classify" in server.app.engine.served.ids


def test_a_server_that_changes_no_tasks_says_so(tmp_path):
    with serving(save_every_kind(tmp_path)) as server:
        status, answer = answer_to(server, "DELETE", "/v1/tasks/classify")
    assert (status, answer["error"]["code"]) == (405, "not_allowed")
    assert "admin=True" in answer["error"]["message"]
