"""Options are defined once, and every command that answers a question prints JSON on request."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.commands import COMMANDS
from weft import cli

SOURCE = Path(cli.__file__).parent


LINES = {"predict", "serve"}
"""Commands whose output is JSON lines already: predictions, and the log of a server."""


def test_there_are_commands():
    assert {"train", "evaluate", "check", "show plan", "task add", "assemble", "policy"} <= set(COMMANDS)


@pytest.mark.parametrize("name", sorted(set(COMMANDS) - LINES))
def test_every_command_has_json(name):
    assert "--json" in [option for parameter in COMMANDS[name].params for option in parameter.opts]


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_argument_and_option_has_a_help_text(name):
    for parameter in COMMANDS[name].params:
        assert getattr(parameter, "help", None), f"{name}: {parameter.name} has no help text"
    assert COMMANDS[name].help


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_the_help_of_a_command_begins_with_one_short_sentence_and_has_an_example(name):
    """A longer first sentence would be truncated in the list of commands."""
    first, _, rest = COMMANDS[name].help.partition("\n\n")
    assert first.endswith(".")
    assert len(first) <= 62
    assert f"Example: weft {name}" in rest


def test_one_option_has_one_help_text():
    """What has one name in several commands means the same in each.

    `weft new --encoder` selects the encoder of a run file; elsewhere the model has one, which may have moved.
    `weft assemble --seed` is the seed of the entries that DARE keeps; it evaluates no examples.
    """
    different = {("new", "--encoder"), ("assemble", "--seed")}
    texts: dict[str, set[str]] = {}
    for name, command in COMMANDS.items():
        for parameter in command.params:
            for option in parameter.opts:
                if (name, option) in different:
                    continue
                if option in ("--json", "--device", "--encoder", "--plot", "--seed", "--basis"):
                    texts.setdefault(option, set()).add(parameter.help)
    assert {option for option, found in texts.items() if len(found) > 1} == set()
    assert texts["--encoder"] == {"folder or hub id of the encoder, if it has moved"}


def test_shared_options_are_defined_in_one_file():
    """No command declares what `options` has."""
    shared = ("--json", "--encoder", "--device", "--plot", "--basis", "--seed", "RUN.yaml", "RUN|BUNDLE")
    own = {"covariance.py", "submit.py"}  # arguments with a meaning of their own under the same metavar
    for file in SOURCE.rglob("*.py"):
        if file.name == "options.py":
            continue
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func) in ("typer.Option", "typer.Argument"):
                values = [ast.literal_eval(a) for a in node.args if isinstance(a, ast.Constant)]
                values += [k.value.value for k in node.keywords if k.arg == "metavar"]
                clash = [v for v in values if v in shared and not (v == "RUN|BUNDLE" and file.name in own)]
                assert not clash, f"{file.name} declares {clash} by itself"


def test_commands_print_by_output_alone():
    """One way to print a table or JSON: no command builds either by itself."""
    for file in SOURCE.rglob("*.py"):
        if file.name == "output.py":
            continue
        text = file.read_text(encoding="utf-8")
        assert "rich.table" not in text, file
        assert "print(json.dumps" not in text, file


def test_commands_import_nothing_heavy():
    """Commands parse, call and print: what computes is in lower rooms, and imported when it is needed."""
    for file in SOURCE.rglob("*.py"):
        tree = ast.parse(file.read_text(encoding="utf-8"))
        for node in tree.body:
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert not [n for n in names if n.split(".")[0] in ("torch", "numpy", "transformers")], file


def test_help_answers_without_torch():
    script = """
import sys
from weft import cli
assert cli.run(["evaluate", "--help"]) == 0
assert "torch" not in sys.modules
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "--precision" in done.stdout
