"""Ctrl-C: one exit code and one line, wherever it comes."""

from __future__ import annotations

import sys

import typer

from weft.cli import app, run
from weft.cli.commands import COMMANDS


def test_ctrl_c_has_one_exit_code_wherever_it_comes(capsys, monkeypatch):
    def interrupted():
        """Be interrupted."""
        raise KeyboardInterrupt

    def reported():
        """Report it."""
        print("stopped; repeat the command", file=sys.stderr)
        raise typer.Exit(130)

    for function in (interrupted, reported):
        monkeypatch.setitem(COMMANDS._entries, "hello", function)
        assert run(["hello"]) == 130
        assert capsys.readouterr().err.count("stopped") == 1
    monkeypatch.undo()
    monkeypatch.setattr(app, "build_app", interrupted)  # while modules are imported
    app._built.cache_clear()
    assert run(["--version"]) == 130
