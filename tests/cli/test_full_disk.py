"""Commands on a disk that is full or read-only: one message, and nothing is lost."""

from __future__ import annotations

import shutil
import sys

import pytest

from tests.support.more import some_of
from tests.support.small_disk import CannotMount, fill, read_only, small_disk
from tests.support.tiny_run import write_run
from tests.support.writing_commands import WRITING_COMMANDS, write_home
from weft import cli
from weft.bundle.one_task import hashes

COMMANDS = {command.name: command for command in WRITING_COMMANDS}


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    return write_home(tmp_path_factory.mktemp("full") / "home")


@pytest.fixture
def disk(tmp_path, monkeypatch):
    try:
        with small_disk(tmp_path / "disk", "8m") as folder:
            monkeypatch.setenv("WEFT_CACHE", str(tmp_path / "cache"))
            monkeypatch.chdir(folder)
            yield folder
            monkeypatch.chdir(tmp_path)
    except CannotMount:
        pytest.skip("cannot mount a small disk here")


FILES = {
    "task copy": "bundle/",
    "task add": "bundle/",
    "compact": "small/",
    "assemble": "gated/",
    "export": "exported/",
    "export to hf": "plain",
    "export to sentence-transformers": "sentences",
    "import": "bundle/",
    "evaluate": "multi",
    "evaluate, a report": "multi",
    "submit": "glue.zip",
    "new": "run2.yaml",
    "predict": "data.csv",
}
"""What the message of each command must name."""


@pytest.mark.parametrize("name", some_of(FILES, ("task copy", "assemble", "new", "predict")))
def test_a_full_disk(name, home, disk, capsys):
    command = COMMANDS[name]
    for item in command.copied:
        source = home / item
        (shutil.copytree if source.is_dir() else shutil.copy)(source, disk / item)
    filler = fill(disk)
    before = hashes(disk)
    arguments = command.arguments(home, disk)
    capsys.readouterr()
    assert cli.run(arguments) == 1
    told = capsys.readouterr()
    assert FILES[name] in told.err, told.err
    assert f"the disk is full, and the file cannot be written to {disk}" in told.err
    assert "choose a folder on a different disk" in told.err
    assert "Traceback" not in told.err
    assert hashes(disk) == before
    filler.unlink()
    assert cli.run(arguments) == 0


def test_a_run_continues_when_there_is_room_again(disk, tmp_path, capsys):
    call = ["train", str(write_run(tmp_path)), "--out", "out"]
    assert cli.run([*call[:-1], str(tmp_path / "straight")]) == 0
    filler = fill(disk, leave=60_000)
    capsys.readouterr()
    assert cli.run(call) == 1
    told = capsys.readouterr()
    assert "the disk is full, and the file cannot be written to " in told.err
    assert "Traceback" not in told.err
    filler.unlink()
    assert cli.run([*call, "--resume"]) == 0
    made, straight = (
        {name: sha256 for name, sha256 in hashes(out / "bundle").items() if name.endswith("tensors")}
        for out in (disk / "out", tmp_path / "straight")
    )
    assert made == straight


def test_a_read_only_disk(home, disk, capsys):
    read_only(disk)
    for command, file in (("compact", "small"), ("new", "run2.yaml")):
        capsys.readouterr()
        assert cli.run(COMMANDS[command].arguments(home, disk)) == 2
        told = capsys.readouterr().err
        assert f"{disk} is on a file system that is mounted read-only" in told
        assert file in told
    capsys.readouterr()
    assert cli.run(["train", str(home / "run.yaml"), "--out", "out"]) == 2
    assert "read-only" in capsys.readouterr().err


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs /dev/full")
def test_standard_output_that_is_full(home, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("WEFT_CACHE", str(tmp_path / "cache"))
    with open("/dev/full", "w") as full:
        monkeypatch.setattr(sys, "stdout", full)
        code = cli.run(["predict", str(home / "bundle"), str(home / "requests.jsonl"), "--device", "cpu"])
        monkeypatch.undo()
    assert code == 1
    assert "it cannot be written to any further: No space left on device" in capsys.readouterr().err
