"""`weft serve`: mistakes are answered before the model is loaded."""

from __future__ import annotations

import socket

import pytest

from tests.support.serving import save_every_kind
from weft import cli
from weft.serving.settings import ServeSettings


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return save_every_kind(tmp_path_factory.mktemp("serve"))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--host", "0.0.0.0", "--admin"], "--admin-keys FILE"),
        (["--keys", "missing.txt"], "--keys missing.txt: cannot be read"),
        (["--precision", "half"], "float32, bf16 or int8"),
        (["--deadline", "0"], "more than 0"),
        (["--host", "256.1.1.1"], "cannot listen"),
        (["--encoder", "nowhere/at/all"], "nowhere"),
        (["--port", "65536"], "--port 65536: expected a port from 0 to 65535"),
        (["--admin-keys", "keys.txt"], "add --admin, or leave --admin-keys out"),
        (["--max-texts", "100", "--queue", "8"], "--max-texts 100: expected at most"),
        (["--max-texts", "100", "--queue", "8"], "add --queue 100, or take --max-texts 8"),
        (["--max-texts", "5000"], "--queue 4096, its default; add --queue 5000"),
    ],
)
def test_mistakes(folder, arguments, words, capfd):
    assert cli.run(["serve", str(folder), *arguments]) == 2
    error = capfd.readouterr().err
    assert words in error
    assert "Traceback" not in error


def test_a_port_in_use(folder, capfd):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        assert cli.run(["serve", str(folder), "--port", str(taken.getsockname()[1])]) == 2
    assert "choose another one with --host and --port" in capfd.readouterr().err


def test_no_bundle(tmp_path, capfd):
    assert cli.run(["serve", str(tmp_path)]) == 2
    assert "holds no bundle" in capfd.readouterr().err


@pytest.mark.parametrize(
    "origin",
    [
        *("evil", "evil.example", "//evil.example", "https://", "https://a.example/", "https://a.example/x"),
        *("https://A.example", "https://a.example:443", "http://a.example:80", "https://a b", "null", ""),
        *(
            "https://a.example:x",
            "https://*.example",
            "https://a.example,https://b.example",
            "https://é.example",
        ),
    ],
)
def test_origins_that_no_browser_sends(folder, origin, capfd):
    assert cli.run(["serve", str(folder), "--cors", "https://good.example", "--cors", origin]) == 2
    error = capfd.readouterr().err
    assert f"--cors {origin}: expected an origin, scheme://host or scheme://host:port" in error


ORIGINS = (
    *("*", "https://a.example", "http://localhost:3000", "http://127.0.0.1:80800", "http://[::1]:8080"),
    *("http://a.example:443", "chrome-extension://abcdef", "http://[::1]"),
)


@pytest.fixture
def settings(monkeypatch):
    """The settings that the command passes on; nothing is served."""
    seen = []
    monkeypatch.setattr("weft.serving.server.serve", lambda bundle, settings, *rest: seen.append(settings))
    return seen


def test_origins_that_browsers_send(folder, settings):
    assert cli.run(["serve", str(folder), *(x for origin in ORIGINS for x in ("--cors", origin))]) == 0
    assert settings[0].cors == ORIGINS


@pytest.mark.parametrize(
    ("arguments", "queue", "texts", "note"),
    [
        ([], 4096, 1024, ""),
        (["--queue", "8"], 8, 8, "note: a request may have at most 8 texts, because --queue is 8"),
        (["--queue", "5000", "--max-texts", "5000"], 5000, 5000, ""),
        (["--max-texts", "4096"], 4096, 4096, ""),
        (["--queue", "1024"], 1024, 1024, ""),
    ],
)
def test_a_request_has_at_most_the_texts_that_may_wait(
    folder, settings, arguments, queue, texts, note, capfd
):
    assert cli.run(["serve", str(folder), *arguments]) == 0
    assert (settings[0].queue, settings[0].texts) == (queue, texts)
    assert capfd.readouterr().err.strip() == note


def test_admin_keys_with_admin(folder, settings, tmp_path):
    file = tmp_path / "keys.txt"
    file.write_text("a" * 20)
    assert cli.run(["serve", str(folder), "--admin", "--admin-keys", str(file)]) == 0
    assert settings[0].admin_keys == ("a" * 20,)


def test_the_help_has_one_form_and_the_defaults_of_the_settings(capsys):
    assert cli.run(["serve", "--help"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "<=" not in text
    assert "port, up to 65535; 0: any free one [default: 8000; at least 0]" in text
    assert f"status 429; default: {ServeSettings.queue} [at least 1]" in text
    assert f"most texts of a request; default: {ServeSettings.texts}" in text
    assert "--port 80 " not in text
    assert "/metrics and /openapi.json need a key then too" in text
