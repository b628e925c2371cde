"""The files of an encoder besides its weights: listed, and verified before anything is loaded."""

import os

import pytest

from tests.support.tiny_run import save_encoder
from weft.encoder import load, packages
from weft.encoder.files import Recorded, settings_sha256
from weft.encoder.load import load_encoder
from weft.errors import WeftError
from weft.utils.checksums import file_sha256


def test_what_decides_on_an_encoders_answers_is_listed(tmp_path):
    folder = save_encoder(tmp_path / "encoder")
    (folder / "README.md").write_text("hello")
    encoder = load_encoder(folder)
    assert set(encoder.files) == {"config.json", "tokenizer.json", "tokenizer_config.json"}
    assert encoder.files == settings_sha256(str(folder))
    assert encoder.files["config.json"] == file_sha256(folder / "config.json")
    assert encoder.sha256 == file_sha256(folder / "model.safetensors")
    assert load_encoder("random:bert-tiny").files == {}
    minilm = load_encoder("minilm")
    assert {"1_Pooling/config.json", "vocab.txt", "config.json", "tokenizer.json"} <= set(minilm.files)


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "model.safetensors"])
def test_nothing_is_loaded_from_files_that_differ(name, tmp_path, monkeypatch):
    folder = save_encoder(tmp_path / "encoder")
    encoder = load_encoder(folder)
    recorded = Recorded(tmp_path / "bundle.json", encoder.sha256, encoder.files)
    load_encoder(folder, recorded=recorded)
    (folder / name).write_bytes((folder / name).read_bytes() + b" ")
    monkeypatch.setattr(load, "_from_files", None)  # what would be called
    with pytest.raises(WeftError, match=rf"{name} is damaged or was replaced") as raised:
        load_encoder(folder, recorded=recorded)
    assert str(tmp_path / "bundle.json") in str(raised.value)


def test_weights_are_hashed_once(tmp_path, monkeypatch):
    folder = save_encoder(tmp_path / "encoder")
    hashed = []

    def counting(path):
        hashed.append(path.name)
        return file_sha256(path)

    monkeypatch.setattr(load, "file_sha256", counting)
    monkeypatch.setattr(packages, "file_sha256", counting)
    sha256 = load_encoder(folder).sha256
    assert hashed == ["model.safetensors"]
    hashed.clear()
    load_encoder(folder, recorded=Recorded(tmp_path / "x", sha256, verified=True))
    assert hashed == []
    load_encoder("minilm")
    assert hashed == ["model.safetensors"]


def test_files_in_the_cache_of_the_hub(tmp_path, monkeypatch):
    """Of a hub id, the files of the snapshot in the cache."""
    from huggingface_hub import constants

    encoder = save_encoder(tmp_path / "encoder")
    repo = tmp_path / "hub" / "models--some--model"
    commit = 10 * "0123"
    snapshot = repo / "snapshots" / commit
    snapshot.parent.mkdir(parents=True)
    os.rename(encoder, snapshot)
    (repo / "refs").mkdir()
    (repo / "refs" / "main").write_text(commit)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    encoder = load_encoder("some/model")
    assert encoder.files["config.json"] == file_sha256(snapshot / "config.json")
    recorded = Recorded(tmp_path / "bundle.json", None, encoder.files)
    load_encoder("some/model", recorded=recorded)
    (snapshot / "tokenizer.json").write_text("{}")
    with pytest.raises(WeftError, match=r"(?s)tokenizer.json is damaged.*encoder='some/model'"):
        load_encoder("some/model", recorded=recorded)
