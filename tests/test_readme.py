"""The README's example runs and prints what the page shows; commands of all pages parse."""

from __future__ import annotations

import functools
import re
from typing import Any

import pytest
import typer.main

from tests.support.pages import blocks, commands
from tests.support.paths import ROOT
from weft.cli.app import build_app
from weft.model.head_settings import HeadSettings
from weft.training.settings import Training

NUMBER = re.compile(r"(?<![\w,])\d+\.\d+")
LABEL = re.compile(r"(?<=')\w+(?=')")
STEPS = 100
"""The number of steps of the README's example."""


def shown() -> tuple[str, str]:
    """The Python of the README, and the output that stands behind it."""
    every = blocks(pages=[ROOT / "README.md"])
    (at,) = [number for number, block in enumerate(every) if block.language == "python"]
    return every[at].text, every[at + 1].text


@pytest.mark.parametrize("steps", [2, pytest.param(STEPS, marks=pytest.mark.slow)])
def test_the_example_prints_what_the_page_shows(steps, tmp_path, monkeypatch, capsys):
    """Words and whole numbers are equal; scores may differ with the version of torch, by 0.1 at the most.

    With fewer steps than on the page, scores and labels differ.
    """
    code, expected = shown()
    assert code.count(f"steps={STEPS},") == 1
    if steps < STEPS:
        code = code.replace(f"steps={STEPS},", f"steps={steps}, evaluate_rows=20, last_evaluation='subset',")
    monkeypatch.chdir(tmp_path)
    exec(compile(code, "README.md", "exec"), {"__name__": "__main__"})
    printed = capsys.readouterr().out
    texts = [NUMBER.sub("#", text) for text in (printed, expected)]
    if steps < STEPS:
        texts = [LABEL.sub("label", text) for text in texts]
    assert texts[0] == texts[1]
    if steps == STEPS:
        scores = [float(number) for number in NUMBER.findall(printed)]
        assert scores == pytest.approx([float(number) for number in NUMBER.findall(expected)], abs=0.1)
    assert (tmp_path / "bundles" / "first" / "bundle.json").is_file()


def test_the_example_is_short():
    code, _ = shown()
    statements = [line for line in code.splitlines() if line.strip()]
    assert len(statements) <= 14
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 125


@functools.cache
def whole_command() -> Any:
    """The command line, built once."""
    return typer.main.get_command(build_app())


def parsed(words: list[str]) -> None:
    """Find the command and parse its options with the command line's own parser.

    Values are not read: the files of an example do not exist. A word in capitals or angle brackets stands
    for a value.
    """
    command = whole_command()
    words = list(words)
    while hasattr(command, "commands"):
        if not words or words == ["--help"]:
            return
        name = words.pop(0)
        if name.startswith("--"):
            assert any(name in option.opts for option in command.params), f"no such option: {name}"
            continue
        assert name in command.commands, f"no such command: {name}"
        command = command.commands[name]
    context = command.context_class(command)
    command.make_parser(context).parse_args(words)
    for word in words:
        if match := re.match(r"(train|heads)\.(\w+)=", word):
            fields = Training.model_fields if match[1] == "train" else HeadSettings.model_fields
            assert match[2] in fields, f"no such key: {match[0]}"


def test_every_command_of_the_pages_parses():
    wrong, count = [], 0
    for where, words in commands("weft"):
        count += 1
        try:
            parsed(words)
        except Exception as error:
            wrong.append(f"{where}: {getattr(error, 'message', error)}")
    assert count > 60
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("words", [["trian", "run.yaml"], ["train", "run.yaml", "--seeed", "1"]])
def test_a_wrong_command_would_be_found(words):
    with pytest.raises(Exception, match=r"no such|No such"):
        parsed(words)


def test_every_make_target_of_the_pages_exists():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([\w-]+):", makefile, re.MULTILINE))
    named = {words[0] for _, words in commands("make")}
    assert {"quickstart", "test"} <= named
    assert named <= targets
