"""`weft new`: what it prints and asks."""

from __future__ import annotations

import json
import sys

import pytest

from tests.support.own_files import SIX, sentences
from weft.cli import run


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_it_prints_its_guesses_and_the_next_commands(folder, capsys):
    file = SIX["latin_1"](folder)
    assert run(["new", str(file)]) == 0
    told = capsys.readouterr().out
    assert "avis  classify" in told
    assert "not sure: avis: kind classify: whole numbers may be classes or a scale" in told
    assert told.endswith("next:\n  weft check run.yaml\n  weft train run.yaml --out runs/first\n")
    assert (folder / "run.yaml").is_file()


def test_json(folder, capsys):
    assert run(["new", str(SIX["semicolons"](folder)), "--out", "my run.yaml", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["run_file"] == "my run.yaml"
    assert told["tasks"]["Umfrage_2024"]["settings"]["texts"] == ["Kommentar (frei)"]


def test_an_existing_file_is_not_overwritten(folder, capsys):
    file = str(SIX["latin_1"](folder))
    assert run(["new", file]) == 0
    assert run(["new", file]) == 2
    assert "run.yaml exists; to overwrite it add --force" in capsys.readouterr().err
    assert run(["new", file, "--force"]) == 0


def test_named_tasks_and_options(folder, capsys):
    (folder / "one.csv").write_text(
        "x,y\n" + "".join(f"{text},{n % 3}\n" for n, text in enumerate(sentences(60)))
    )
    words = ["new", "--task", "mine=one.csv", "--text", "x", "--label", "y", "--kind", "regress", "--json"]
    assert run(words) == 0
    task = json.loads(capsys.readouterr().out)["tasks"]["mine"]["settings"]
    assert (task["kind"], task["texts"], task["label"], task["range"]) == ("regress", ["x"], "y", [0, 2])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "no data files"),
        (["--task", "x"], "--task 'x': expected NAME=FILE"),
        (["absent.csv"], "there is no such file"),
        (["empty.csv"], "the file is empty"),
        (["numbers.csv"], "found no column of texts"),
        (["numbers.csv", "--out", "no/run.yaml"], "mkdir -p no"),
    ],
)
def test_mistakes(folder, capsys, words, message):
    (folder / "empty.csv").touch()
    (folder / "numbers.csv").write_text("id,label\n1,a\n2,b\n3,a\n4,b\n")
    assert run(["new", *words]) == 2
    assert message in capsys.readouterr().err
    assert not (folder / "run.yaml").exists()


class Terminal:
    """Standard input of a terminal with prepared answers."""

    def __init__(self, *answers):
        self.answers = list(answers)

    def isatty(self):
        return True

    def readline(self, *_):
        return f"{self.answers.pop(0)}\n"


def test_a_terminal_is_asked_where_the_data_does_not_decide(folder, capsys, monkeypatch):
    terminal = Terminal("regres", "regress")
    monkeypatch.setattr(sys, "stdin", terminal)
    assert run(["new", str(SIX["latin_1"](folder))]) == 0
    told = capsys.readouterr().out
    assert "did you mean 'regress'" in told
    assert terminal.answers == []
    assert "kind: regress" in (folder / "run.yaml").read_text()
    # what is certain is not asked, and --yes asks nothing
    assert run(["new", str(SIX["semicolons"](folder)), "--force"]) == 0
    assert run(["new", str(SIX["latin_1"](folder)), "--force", "--yes"]) == 0
    assert "kind: classify" in (folder / "run.yaml").read_text()
