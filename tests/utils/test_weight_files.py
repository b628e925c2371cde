"""Files of tensors of any origin: no code in them runs, and small files do not become large tensors."""

from __future__ import annotations

import pickle
import zipfile

import pytest
import torch
from safetensors.torch import save_file

from tests.support.planted import Trace, plant_pickle
from weft.errors import WeftError
from weft.utils.weight_files import read_saved, read_tensors

TENSORS = {"a": torch.arange(6.0).view(2, 3), "b": torch.ones(2, dtype=torch.float16)}


def assert_equal(read):
    assert read.keys() == TENSORS.keys()
    assert all(torch.equal(read[name], TENSORS[name]) for name in TENSORS)


@pytest.mark.parametrize("form", ["safetensors", "bin", "old bin"])
def test_tensors_are_read(tmp_path, form):
    path = tmp_path / f"w.{form.split()[-1]}"
    if form == "safetensors":
        save_file(TENSORS, path)
    else:
        torch.save(TENSORS, path, _use_new_zipfile_serialization=form == "bin")
    assert_equal(read_tensors(path))


@pytest.mark.parametrize("plain", [True, False])
def test_code_in_a_pickle_does_not_run(tmp_path, plain):
    trace = Trace(tmp_path)
    path = plant_pickle(tmp_path / "w.bin", trace, TENSORS, plain)
    with pytest.raises(
        WeftError, match=r"w\.bin cannot be read as a file of weights.*weft runs no code"
    ) as wrong:
        read_tensors(path)
    trace.assert_clean()
    assert "\x1b" not in str(wrong.value)  # torch's own message is in bold
    if plain:  # the trap works
        pickle.loads(path.read_bytes())
        assert trace.file.read_text() == "pickle"


def _cut(path):
    path.write_bytes(path.read_bytes()[:-100])


def _compressed(path):
    with zipfile.ZipFile(path) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(name, data)


DAMAGED = {
    "cut": (_cut, "cannot be read as a file of weights"),
    "empty": (lambda path: path.write_bytes(b""), "cannot be read as a file of weights"),
    "junk": (lambda path: path.write_bytes(b"junk" * 9), "cannot be read as a file of weights"),
    "missing": (lambda path: path.unlink(), "there is no such file"),
    "compressed": (_compressed, "the archive is compressed"),
    "a list": (lambda path: torch.save([1], path), "expected tensors by name; found list"),
    "a number": (lambda path: torch.save({"a": 1}, path), "'a' is int"),
    "sparse": (lambda path: torch.save({"a": torch.eye(3).to_sparse()}, path), "'a' is not a plain tensor"),
    "meta": (lambda path: torch.save({"a": torch.ones(3, device="meta")}, path), "'a' is not a plain tensor"),
    "a model": (lambda path: torch.save(torch.nn.Linear(2, 2), path), "weft runs no code of a file"),
    "one value, shown often": (
        lambda path: torch.save({"a": torch.ones(1).expand(10**12)}, path),
        r"'a' has shape \[1000000000000\]; the file stores fewer values",
    ),
    "one storage, shown often": (
        lambda path: torch.save(dict.fromkeys(map(str, range(3000)), torch.ones(1000)), path),
        "its tensors have 12,000,000 bytes",
    ),
}


@pytest.mark.parametrize("change", DAMAGED)
def test_damaged_files_are_answered(tmp_path, change):
    path = tmp_path / "w.bin"
    torch.save(TENSORS, path)
    apply, words = DAMAGED[change]
    apply(path)
    with pytest.raises(WeftError, match=words) as wrong:
        read_tensors(path)
    assert str(wrong.value).startswith(str(path))


def test_a_damaged_safetensors_file(tmp_path):
    save_file(TENSORS, tmp_path / "w.safetensors")
    _cut(tmp_path / "w.safetensors")
    with pytest.raises(WeftError, match="cannot be read as a file of weights"):
        read_tensors(tmp_path / "w.safetensors")


def test_other_plain_values_are_left_to_the_caller(tmp_path):
    torch.save({"epoch": 3}, tmp_path / "w.pt")
    assert read_saved(tmp_path / "w.pt") == {"epoch": 3}
