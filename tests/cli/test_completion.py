"""Completion in a shell: what each shell's script gets for the words that are there."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.core import TyperCommand
from typer.main import get_command

from weft.cli import run
from weft.cli.app import build_app
from weft.methods import METHODS
from weft.suites import suite_names

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    """A folder with a run file and a bundle."""
    tasks = tmp_path / "runs" / "first" / "bundle" / "tasks"
    tasks.mkdir(parents=True)
    for name in ("cola", "mrpc", "rte"):
        (tasks / f"{name}.safetensors").touch()
    (tmp_path / "mine.yaml").touch()
    monkeypatch.chdir(tmp_path)


def completed(monkeypatch, capsys, shell, words):
    """What the script of a shell prints for a line that ends with the last word."""
    if shell == "bash":
        # bash splits words at =
        parts = [part for word in words for part in split(word)] if words[-1] else [*words]
        monkeypatch.setenv("COMP_WORDS", "\n".join(["weft", *parts]))
        monkeypatch.setenv("COMP_CWORD", str(len(parts)))
    else:
        monkeypatch.setenv("_TYPER_COMPLETE_ARGS", " ".join(["weft", *words]))
        monkeypatch.setenv("_TYPER_COMPLETE_FISH_ACTION", "get-args")
    monkeypatch.setenv("_WEFT_COMPLETE", f"complete_{shell}")
    capsys.readouterr()
    assert run([]) == 0
    return [line.split("\t")[0] for line in capsys.readouterr().out.splitlines() if line]


def split(word):
    key, equals, value = word.partition("=")
    return [part for part in (key, equals, value) if part]


CASES = {
    "command": (["tra"], ["train"]),
    "subcommand": (["show", "sp"], ["sparsity", "spread"]),
    "option": (["evaluate", "runs/first", "--spl"], ["--split"]),
    "preset": (["train", "quick"], ["quickstart"]),
    "file": (["train", "min"], ["mine.yaml"]),
    "split": (["evaluate", "runs/first", "--split", "v"], ["validation"]),
    "task after an option": (["show", "attention", "runs/first", "--task", "c"], ["cola"]),
    "task as an argument": (["task", "remove", "runs/first", "r"], ["rte"]),
    "tasks": (
        ["predict", "runs/first", "x.txt", "--tasks", "cola,"],
        ["cola,cola", "cola,mrpc", "cola,rte"],
    ),
    "start": (["task", "add", "runs/first", "x.yaml", "--start", "ra"], ["random"]),
    "start, a task": (["task", "add", "runs/first", "x.yaml", "--start", "rt"], ["rte"]),
    "export format": (["export", "runs/first", "--to", "p"], ["peft"]),
    "benchmark": (["submit", "runs/first", "--to", "s"], ["superglue"]),
    "encoder": (["evaluate", "runs/first", "--encoder", "m"], ["minilm", "mpnet", "mpnet-float16"]),
    "no bundle": (["task", "remove", "nowhere", "r"], []),
}


@pytest.mark.parametrize("shell", ["bash", "fish"])
@pytest.mark.parametrize("case", CASES)
def test_values(case, shell, monkeypatch, capsys):
    words, expected = CASES[case]
    assert completed(monkeypatch, capsys, shell, words) == expected


VALUES = {
    "method=": list(METHODS),
    "method=lora_": ["lora_bitfit", "lora_bitfit_mtl", "lora_xs"],
    "tasks.suite=": suite_names(),
    "train.loss=": ["task_mean", "example_mean", "sum"],
    "train.mixed=t": ["true"],
    "train.steps=": ["1000"],
    "nothing=": [],
}


@pytest.mark.parametrize("word", VALUES)
def test_settings_in_shells_that_replace_the_word_or_its_end(word, monkeypatch, capsys):
    key = word.partition("=")[0]
    whole = [f"{key}={value}" for value in VALUES[word]]
    call = ["train", "quickstart", "train.seed=3", word]
    assert completed(monkeypatch, capsys, "fish", call) == whole
    if word != "nothing=":  # bash: an unknown word before an empty one, as any other
        assert completed(monkeypatch, capsys, "bash", call) == VALUES[word]


def test_keys(monkeypatch, capsys):
    found = completed(monkeypatch, capsys, "bash", ["train", "quickstart", "meth"])
    assert found == [f"method={name}" for name in METHODS]
    found = completed(monkeypatch, capsys, "bash", ["train", "quickstart", "train.step"])
    assert found == ["train.steps=1000"]
    found = completed(monkeypatch, capsys, "bash", ["train", "quickstart", "method=lora", "train.batch"])
    assert found == ["train.batch_size=32"]


def test_the_scripts(monkeypatch, capsys):
    for shell in ("bash", "zsh", "fish"):
        monkeypatch.setenv("_WEFT_COMPLETE", f"source_{shell}")
        assert run([]) == 0
        assert "_WEFT_COMPLETE=complete_" in capsys.readouterr().out
    monkeypatch.delenv("_WEFT_COMPLETE")
    options = [option for parameter in get_command(build_app()).params for option in parameter.opts]
    assert {"--install-completion", "--show-completion", "--version"} <= set(options)


def test_every_command_can_be_completed(monkeypatch, capsys):
    """The names of all options, also of commands that have no completer of their own."""

    def walk(command, words):
        if isinstance(command, TyperCommand):
            found = completed(monkeypatch, capsys, "bash", [*words, "--"])
            assert {"--quiet", "--help"} <= set(found), words
        for name, child in getattr(command, "commands", {}).items():
            walk(child, [*words, name])

    walk(get_command(build_app()), [])


def test_completion_needs_no_torch():
    """A key press must not wait for an import."""
    script = (
        "import sys; from weft.cli import run; code = run([]); "
        "assert code == 0 and not {'torch', 'transformers'} & set(sys.modules)"
    )
    words = ["weft", "train", "quickstart", "method", "=", "lo"]
    env = {
        **os.environ,
        "_WEFT_COMPLETE": "complete_bash",
        "COMP_WORDS": "\n".join(words),
        "COMP_CWORD": "5",
    }
    call = [sys.executable, "-c", script]
    done = subprocess.run(call, capture_output=True, text=True, check=False, env=env, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    assert "lora" in done.stdout
