"""`--quiet`: the result on standard output, nothing on standard error unless it is an error."""

from __future__ import annotations

import json
import warnings

import pytest

from tests.support.commands import COMMANDS
from tests.support.tiny_run import trained_run, write_rows, write_run
from weft.cli import run
from weft.cli.quiet import with_quiet
from weft.utils.notes import is_quiet


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """A finished run of the tiny model."""
    with trained_run(tmp_path_factory.mktemp("quiet")) as folder:
        yield folder


def said(capsys, *arguments):
    capsys.readouterr()
    code = run([str(argument) for argument in arguments])
    return code, capsys.readouterr()


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_command_has_it(name):
    assert [p.opts for p in COMMANDS[name].params].count(["--quiet", "-q"]) == 1


@pytest.mark.parametrize("place", ["before", "after"])
def test_training_shows_the_result_alone(done, capsys, tmp_path, place):
    call = ["train", done / "run.yaml", "train.steps=4", "--out", tmp_path / "loud"]
    code, loud = said(capsys, *call)
    assert code == 0
    assert "step 4/4" in loud.err
    call[-1] = tmp_path / "still"
    code, still = said(capsys, *(["--quiet", *call] if place == "before" else [*call, "-q"]))
    assert (code, still.err) == (0, "")
    assert still.out == loud.out.replace("loud", "still")
    assert not is_quiet()  # for this command line only
    code, told = said(capsys, *call, "--resume", "-q")
    assert code == 0
    assert "has ended" in told.out  # the result of this call
    code, told = said(capsys, *call, "-q")
    assert code == 2
    assert "holds a finished run" in told.err  # an error is shown


def test_notes_and_warnings(done, capsys, tmp_path):
    metrics = {"split": "test", "tasks": {"a": {"mse": 0.5}, "b": {"accuracy": 0.5}}, "rows": {}}
    (tmp_path / "metrics.json").write_text(json.dumps(metrics), encoding="utf-8")
    _, loud = said(capsys, "show", "spread", tmp_path)
    assert "note: " in loud.err
    code, still = said(capsys, "show", "spread", tmp_path, "--quiet")
    assert (code, still.out, still.err) == (0, loud.out, "")
    plot = tmp_path / "a.svg"
    code, told = said(capsys, "show", "spread", tmp_path, "--quiet", "--json", "--plot", plot)
    assert (code, told.err) == (0, "")
    assert plot.is_file()


def test_predictions(done, capsys):
    ask = write_rows(done / "one.jsonl", [{"task": "cat", "text": "a cat"}])
    code, told = said(capsys, "predict", done / "out", ask, "-q")
    assert (code, told.err) == (0, "")
    assert json.loads(told.out)["task"] == "cat"


def test_check_still_reports(capsys, tmp_path):
    file = write_run(tmp_path)
    (tmp_path / "cat.train.jsonl").write_text("{\n", encoding="utf-8")
    code, told = said(capsys, "check", file, "--no-estimate", "--quiet")
    assert code == 2
    assert "cat.train.jsonl" in told.out + told.err


def test_a_command_keeps_its_options_and_gets_one_more():
    def command(name: str, count: int = 3) -> str:
        assert is_quiet()
        warnings.warn("of a library", stacklevel=1)
        return name * count

    from weft.utils.notes import quiet

    wrapped = with_quiet(command)
    assert with_quiet(wrapped) is wrapped
    with quiet(False), warnings.catch_warnings(record=True) as seen:
        assert wrapped(name="a", quiet_=True) == "aaa"
    assert seen == []
