"""Wrong data files on the command line: exit 2, the place in the file, and nothing written."""

from __future__ import annotations

import pytest
import yaml

from tests.support.malformed_kinds import FINE, WRONG
from tests.support.more import some_of
from tests.support.tiny_run import save_encoder
from weft.cli import run


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    return save_encoder(tmp_path_factory.mktemp("encoder"))


def write_run(folder, case, encoder):
    path = case.write(folder / "data")
    file = {"path": f"data/{case.name}", **case.source} if case.source else f"data/{case.name}"
    task = {**case.task, "train": file, "validation": file}
    run_file = folder / "run.yaml"
    settings = {"steps": 1, "batch_size": 2, "max_length": 24, "lr": 0.01}
    said = {"encoder": str(encoder), "method": "frozen", "tasks": {"bad": task}, "train": settings}
    run_file.write_text(yaml.safe_dump(said), "utf-8")
    return path, run_file


def files_in(folder):
    return sorted(str(path) for path in folder.rglob("*"))


def told_all(text, path, words):
    """Whether the message holds the file and every word, however its lines are broken."""
    flat = "".join(text.split())
    return all("".join(word.split()) in flat for word in (str(path), *words))


@pytest.mark.parametrize("case", some_of([pytest.param(case, id=name) for name, case in WRONG.items()], 20))
def test_training_on_wrong_files(tmp_path, capsys, monkeypatch, encoder, case):
    monkeypatch.setenv("WEFT_CACHE", str(tmp_path / "cache"))
    path, run_file = write_run(tmp_path, case, encoder)
    before = files_in(tmp_path)
    capsys.readouterr()
    code = run(["train", str(run_file), "--out", str(tmp_path / "out")])
    told = capsys.readouterr()
    assert (code, told.out) == (2, "")
    assert "Traceback" not in told.err
    assert told_all(told.err, path, case.words), told.err
    assert files_in(tmp_path) == before


@pytest.mark.parametrize("case", list(WRONG.values())[::6], ids=list(WRONG)[::6])
def test_checking_wrong_files(tmp_path, capsys, monkeypatch, encoder, case):
    monkeypatch.setenv("WEFT_CACHE", str(tmp_path / "cache"))
    path, run_file = write_run(tmp_path, case, encoder)
    capsys.readouterr()
    assert run(["check", str(run_file)]) == 2
    told = capsys.readouterr()
    assert "Traceback" not in told.err
    assert told_all(told.out + told.err, path, case.words), told


@pytest.mark.parametrize("name", ["CR line ends", "byte order mark", "CR in conll", "mrqa", "record"])
def test_checking_odd_files_that_are_right(tmp_path, capsys, monkeypatch, encoder, name):
    monkeypatch.setenv("WEFT_CACHE", str(tmp_path / "cache"))
    _, run_file = write_run(tmp_path, FINE[name][0], encoder)
    assert run(["check", str(run_file)]) == 0
