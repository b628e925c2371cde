"""Atomic writes, and the modes of what is written."""

import os

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from weft.data.tokens.cache import write_entry
from weft.training.run.checkpoint import save_tensors
from weft.utils.files import new_folder, sweep, write_json


def test_a_folder_appears_whole_or_not_at_all(tmp_path):
    target = tmp_path / "x"

    def fail():
        with new_folder(target) as work:
            (work / "half").touch()
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert list(tmp_path.iterdir()) == []
    with new_folder(target) as work:
        (work / "one").write_text("1")
        assert not target.exists()
    assert (target / "one").read_text() == "1"
    with new_folder(target) as work:
        (work / "two").write_text("2")
    assert [p.name for p in target.iterdir()] == ["two"]
    assert [p.name for p in tmp_path.iterdir()] == ["x"]


@pytest.fixture
def flushed(monkeypatch):
    """The paths that were flushed to the disk, in order."""
    paths, real = [], os.fsync

    def noting(handle):
        paths.append(os.readlink(f"/proc/self/fd/{handle}"))
        real(handle)

    monkeypatch.setattr(os, "fsync", noting)
    return paths


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="needs the names of open files")
def test_what_is_written_is_on_the_disk_before_it_has_its_name(flushed, tmp_path):
    """Files before the folders that name them, and the parent last: a crash leaves the old or the new."""
    with new_folder(tmp_path / "out") as work:
        (work / "inner").mkdir()
        (work / "inner" / "file").write_text("1")
        (work / "other").write_text("2")
        names = [str(work / "inner" / "file"), str(work / "inner"), str(work)]
        assert flushed == []
    assert [path for path in flushed if path in names] == names
    assert str(work / "other") in flushed
    assert flushed[-1] == str(tmp_path)
    flushed.clear()
    write_json(tmp_path / "a.json", 1)
    assert [os.path.basename(path).partition(".weft-")[0] for path in flushed] == [".a.json", tmp_path.name]
    flushed.clear()
    save_tensors(tmp_path / "best.safetensors", {"x": torch.zeros(2)})
    assert [os.path.basename(path) for path in flushed] == ["best.safetensors", tmp_path.name]
    flushed.clear()
    arrays = {"ids": np.arange(9), "offsets": np.array([0, 4, 9]), "full_lengths": np.array([4, 5])}
    write_entry(tmp_path / "cache", "key", arrays, {})
    assert len([path for path in flushed if path.endswith(".npy")]) == 3
    assert flushed[-1] == str(tmp_path / "cache" / "tokens")
    assert ".key.weft-" in flushed[-2]


def test_sweeping_leaves_what_is_whole(tmp_path):
    (tmp_path / ".step-1-abc").mkdir()
    (tmp_path / ".run.yaml.new").touch()
    write_json(tmp_path / "kept.json", {"a": 1})
    (tmp_path / ".gitignore").touch()
    sweep(tmp_path, ".step-*", ".run.yaml.new")
    assert sorted(p.name for p in tmp_path.iterdir()) == [".gitignore", "kept.json"]


@pytest.mark.parametrize(("umask", "file", "folder"), [(0o022, 0o644, 0o755), (0o077, 0o600, 0o700)])
def test_files_have_the_mode_of_the_umask(umask, file, folder, tmp_path):
    """Weights too, which safetensors writes for their owner alone."""
    before = os.umask(umask)
    try:
        with new_folder(tmp_path / "out") as work:
            save_file({"x": torch.zeros(2)}, work / "weights.safetensors")
            (work / "inner").mkdir()
            write_json(work / "inner" / "facts.json", {})
        save_tensors(tmp_path / "best.safetensors", {"x": torch.zeros(2)})
    finally:
        os.umask(before)
    modes = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.rglob("*")}
    assert modes == {
        "out": folder,
        "inner": folder,
        "weights.safetensors": file,
        "facts.json": file,
        "best.safetensors": file,
    }
