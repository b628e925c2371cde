"""docs/extension.md, "A CLI command": the toy prints the size of each task."""

from __future__ import annotations

import json

import pytest

from tests.extension.recipes import follow
from tests.support.tiny_run import assert_refused, write_run
from weft.cli import run


@pytest.fixture
def sizes(tmp_path, monkeypatch):
    follow("A CLI command", "my_command", folder=tmp_path, monkeypatch=monkeypatch)


@pytest.mark.usefixtures("sizes")
def test_it_runs(tmp_path, capsys):
    file = write_run(tmp_path)
    assert run(["sizes", str(file)]) == 0
    assert capsys.readouterr().out == "cat  40\nsame  25\ncount  9\n"
    assert run(["sizes", str(file), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"cat": 40, "same": 25, "count": 9}


@pytest.mark.usefixtures("sizes")
def test_it_is_in_the_help(capsys):
    assert run(["--help"]) == 0
    assert "How many training examples each task of a run has." in capsys.readouterr().out


@pytest.mark.usefixtures("sizes")
def test_a_users_mistake_is_a_message_and_exit_2(tmp_path, capsys):
    code = run(["sizes", str(tmp_path / "missing.yaml")])
    assert_refused(code, capsys.readouterr(), ["missing.yaml"])


def test_without_its_registration_there_is_no_such_command(capsys):
    assert run(["sizes", "run.yaml"]) == 2
    assert "sizes" in capsys.readouterr().err
