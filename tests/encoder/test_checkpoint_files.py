"""Which files of a folder hold an encoder's weights."""

from __future__ import annotations

import json
import os

import pytest
import torch
from safetensors.torch import save_file

from tests.support.planted import Trace, plant_pickle
from weft.encoder.checkpoint_files import FILES, find_weights, read_weights
from weft.errors import WeftError


def index(folder, name, *files):
    (folder / name).write_text(json.dumps({"weight_map": {f"w{n}": file for n, file in enumerate(files)}}))


def test_the_order_is_that_of_transformers(tmp_path):
    for name in reversed(FILES):
        if name.endswith(".json"):
            part = "part.bin" if "bin" in name else "part.safetensors"
            index(tmp_path, name, part)
            (tmp_path / part).touch()
            expected = [tmp_path / part]
        else:
            (tmp_path / name).touch()
            expected = [tmp_path / name]
        assert find_weights(tmp_path) == expected


def test_several_files(tmp_path):
    for number in (1, 2):
        save_file({f"w{number}": torch.full((2,), float(number))}, tmp_path / f"model-{number}.safetensors")
    index(tmp_path, "model.safetensors.index.json", "model-2.safetensors", "model-1.safetensors")
    weights = read_weights(find_weights(tmp_path))
    assert {name: tensor.tolist() for name, tensor in weights.items()} == {"w1": [1.0, 1.0], "w2": [2.0, 2.0]}


@pytest.mark.parametrize(
    "file", ["../x.safetensors", "/etc/passwd", "a/b.safetensors", "x.bin", "", 3, None, "."]
)
def test_an_index_that_leads_elsewhere_is_refused(tmp_path, file):
    index(tmp_path, "model.safetensors.index.json", file)
    with pytest.raises(WeftError, match=r"weight_map names .*; expected files of the same folder"):
        find_weights(tmp_path)


@pytest.mark.parametrize(
    "contents", ["{}", "[]", '{"weight_map": []}', '{"weight_map": {}}', "{", "[" * 9999]
)
def test_a_broken_index(tmp_path, contents):
    (tmp_path / "model.safetensors.index.json").write_text(contents)
    with pytest.raises(WeftError, match=r"index\.json"):
        find_weights(tmp_path)


def test_files_that_are_missing(tmp_path):
    with pytest.raises(WeftError, match=r"has no weights; expected one of model\.safetensors"):
        find_weights(tmp_path)
    index(tmp_path, "model.safetensors.index.json", "a.safetensors")
    with pytest.raises(WeftError, match=r"names a\.safetensors, which is missing"):
        find_weights(tmp_path)
    os.mkfifo(tmp_path / "a.safetensors")  # reading it would never end
    with pytest.raises(WeftError, match=r"names a\.safetensors, which is missing"):
        find_weights(tmp_path)


def test_code_in_one_of_several_pickles_does_not_run(tmp_path):
    trace = Trace(tmp_path)
    torch.save({"w0": torch.ones(1)}, tmp_path / "a.bin")
    plant_pickle(tmp_path / "b.bin", trace)
    index(tmp_path, "pytorch_model.bin.index.json", "a.bin", "b.bin")
    with pytest.raises(WeftError, match=r"b\.bin.*weft runs no code"):
        read_weights(find_weights(tmp_path))
    trace.assert_clean()
