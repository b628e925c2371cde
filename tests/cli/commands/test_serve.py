"""`weft serve`: mistakes are answered before the model is loaded."""

from __future__ import annotations

import socket

import pytest

from tests.support.serving import save_every_kind
from weft import cli


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
