"""Atomic writes, and the modes of what is written."""

import os

import pytest
import torch
from safetensors.torch import save_file

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
