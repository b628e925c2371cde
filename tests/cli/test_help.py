"""Help pages at 80 columns: complete, in plain words, for every command."""

from __future__ import annotations

import re

import pytest
from typer.main import get_command

from tests.support.commands import COMMANDS
from tests.support.more import some_of
from weft.cli import run
from weft.cli.app import build_app

GROUPS = sorted({" ".join(name.split()[:-1]) for name in COMMANDS})
PAGES = sorted([*COMMANDS, *GROUPS])


@pytest.fixture(autouse=True)
def columns(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")


def page(capsys, name, option="--help"):
    capsys.readouterr()
    assert run([*name.split(), option]) == 0
    return capsys.readouterr().out


def command_of(name):
    command = get_command(build_app())
    for word in name.split():
        command = command.commands[word]
    return command


def squeezed(text):
    """The words of a text: a page breaks lines anywhere, also after a hyphen."""
    return re.sub(r"\s+", "", text)


@pytest.mark.parametrize("name", PAGES)
def test_nothing_is_cut_at_80_columns(name, capsys):
    """Every name, placeholder and sentence is on the page in full, and no line is too long."""
    text = page(capsys, name)
    assert max(map(len, text.splitlines())) <= 80
    found, command = squeezed(text), command_of(name)
    assert squeezed(command.help) in found
    for parameter in command.params:
        assert squeezed(parameter.help) in found, parameter.name
        if parameter.param_type_name == "argument":
            assert f"\n  {parameter.metavar} " in text
        else:
            assert all(option in text for option in parameter.opts)
    for child, of in getattr(command, "commands", {}).items():
        sentence = of.help.partition("\n\n")[0]
        assert squeezed(child + sentence) in found


@pytest.mark.parametrize("name", PAGES)
def test_placeholders_are_plain(name, capsys):
    text = page(capsys, name)
    usage, _, rest = text.partition("\n\n")
    assert usage.startswith(f"Usage: weft {name}".rstrip() + " [OPTIONS]")
    assert not set("{}<>") & set(usage)
    tables = rest.partition("Arguments:\n")[2] or rest.partition("Options:\n")[2]
    assert not re.search(r"<\w|\w>|\{\w", tables)
    assert "x>=" not in text


@pytest.mark.parametrize("name", some_of(PAGES, 6))
def test_h_is_help(name, capsys):
    assert page(capsys, name, "-h") == page(capsys, name, "--help")


def test_the_usage_line_tells_optional_from_required(capsys):
    assert page(capsys, "train").splitlines()[0] == "Usage: weft train [OPTIONS] RUN.yaml [KEY=VALUE]..."
    assert page(capsys, "show averages").splitlines()[0] == "Usage: weft show averages [OPTIONS] RUN..."


def test_an_option_without_a_placeholder_gets_one():
    from weft.cli.help import _option

    assert _option("--rows <int range>") == "--rows N"
    assert _option("--x <float>") == "--x NUMBER"
    assert _option("--x <path>") == "--x PATH"
    assert _option("-t, --text <list[str]>") == "-t, --text TEXT"
    assert _option("--out FOLDER") == "--out FOLDER"
