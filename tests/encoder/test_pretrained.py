"""Encoders and tokenizers of strangers: none of their code runs, and their files are checked first."""

from __future__ import annotations

import json
import os
import shutil

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoConfig, AutoModel

from tests.support.planted import change, plant_code, plant_pickle, plant_tokenizer, trace_of
from tests.support.tiny import tiny
from tests.support.tiny_run import save_encoder
from weft.encoder.load import load_encoder, load_tokenizer
from weft.encoder.pretrained import saved_tokenizer, tokenizer_from_files
from weft.errors import WeftError


@pytest.fixture
def folder(tmp_path):
    return save_encoder(tmp_path / "encoder")


@pytest.fixture
def trace(tmp_path, monkeypatch):
    return trace_of(tmp_path, monkeypatch)


def in_hub_cache(folder, cache, monkeypatch, repository="org/name"):
    """Put a folder into a cache of the hub as the hub's package does: blobs, and links to them."""
    place = cache / f"models--{repository.replace('/', '--')}"
    commit = "0" * 40
    (place / "refs").mkdir(parents=True)
    (place / "refs" / "main").write_text(commit)
    for number, file in enumerate(sorted(path for path in folder.rglob("*") if path.is_file())):
        blob, link = (
            place / "blobs" / f"{number:040x}",
            place / "snapshots" / commit / file.relative_to(folder),
        )
        for path in (blob, link):
            path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, blob)
        link.symlink_to(os.path.relpath(blob, link.parent))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(cache))
    return place / "snapshots" / commit


def assert_same_weights(model, expected):
    state = expected.state_dict()
    assert model.state_dict().keys() == state.keys()
    assert all(torch.equal(value, state[name]) for name, value in model.state_dict().items())


def test_the_trap_works(folder, trace):
    """With transformers itself, and its permission, the planted code runs."""
    plant_code(folder, trace)
    AutoConfig.from_pretrained(folder, trust_remote_code=True)
    assert trace.file.exists()


def test_a_family_of_its_own_is_refused(folder, trace):
    plant_code(folder, trace)
    with pytest.raises(
        WeftError, match=r"'evil' has no anatomy.*own code \(auto_map\), which weft does not run"
    ):
        load_encoder(folder)
    for load in (load_tokenizer, lambda name: saved_tokenizer("x", str(name))):
        with pytest.raises(WeftError, match="which weft does not run"):
            load(folder)
    trace.assert_clean()


def test_a_known_family_is_loaded_without_its_code(folder, trace):
    before = load_encoder(folder)
    plant_code(folder, trace, native=True)
    encoder = load_encoder(folder)
    assert_same_weights(encoder.model, before.model)
    assert encoder.tokenizer.encode("a cat") == before.tokenizer.encode("a cat")
    assert len(encoder.notes) == 2
    assert all("weft does not run it" in note for note in encoder.notes)
    trace.assert_clean()
    encoder.model.save_pretrained(folder.parent / "again")
    assert "auto_map" not in json.loads((folder.parent / "again" / "config.json").read_text())


def test_a_tokenizer_alone_with_code(folder, trace):
    (folder / "config.json").unlink()
    plant_tokenizer(folder, trace)
    with pytest.raises(WeftError, match=r"could not be loaded: .*weft does not run it"):
        tokenizer_from_files("x", str(folder))
    trace.assert_clean()


def test_a_hub_id_with_code(folder, trace, tmp_path, monkeypatch):
    in_hub_cache(plant_code(folder, trace), tmp_path / "hub", monkeypatch)
    for load in (load_encoder, load_tokenizer):
        with pytest.raises(WeftError, match="which weft does not run"):
            load("org/name")
    trace.assert_clean()


@pytest.mark.parametrize("by_id", [True, False])
def test_the_links_of_the_hubs_cache_are_followed(folder, tmp_path, monkeypatch, by_id):
    snapshot = in_hub_cache(folder, tmp_path / "hub", monkeypatch)
    encoder = load_encoder("org/name" if by_id else snapshot)
    assert_same_weights(encoder.model, tiny("bert"))
    assert encoder.tokenizer.encode("a cat") == load_tokenizer(folder).encode("a cat")


def test_a_hub_id_without_weights_or_configuration(folder, tmp_path, monkeypatch):
    (folder / "model.safetensors").unlink()
    snapshot = in_hub_cache(folder, tmp_path / "hub", monkeypatch)
    with pytest.raises(WeftError, match="has no weights"):
        load_encoder("org/name")
    (snapshot / "config.json").unlink()
    with pytest.raises(WeftError, match=r"the hub cannot be reached|could not be loaded from the hub"):
        load_encoder("org/name")


@pytest.mark.parametrize("plain", [True, False])
def test_a_pickle_with_code(folder, trace, plain):
    tensors = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    plant_pickle(folder / "pytorch_model.bin", trace, tensors, plain)
    with pytest.raises(WeftError, match=r"pytorch_model\.bin.*weft runs no code of a file"):
        load_encoder(folder)
    trace.assert_clean()


def test_a_distributed_checkpoint_is_not_looked_at(folder, trace):
    """Its metadata is a pickle that torch loads whole."""
    plant_pickle(folder / ".metadata", trace, plain=True)
    assert_same_weights(load_encoder(folder).model, tiny("bert"))
    trace.assert_clean()


def test_an_adapter_in_the_folder_is_not_loaded(folder, tmp_path, trace):
    other = plant_code(save_encoder(tmp_path / "other"), trace)
    change(folder / "adapter_config.json", peft_type="LORA", base_model_name_or_path=str(other), r=1)
    plant_pickle(folder / "adapter_model.bin", trace)
    assert_same_weights(load_encoder(folder).model, tiny("bert"))
    trace.assert_clean()


@pytest.mark.parametrize("form", ["bin", "old bin", "shards", "prefix"])
def test_every_form_of_a_checkpoint(folder, form):
    tensors = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    if form == "shards":
        halves = [dict(list(tensors.items())[part::2]) for part in (0, 1)]
        for number, half in enumerate(halves):
            save_file(half, folder / f"model-{number}.safetensors", {"format": "pt"})
        index = {name: f"model-{number}.safetensors" for number, half in enumerate(halves) for name in half}
        change(folder / "model.safetensors.index.json", weight_map=index)
    elif form == "prefix":  # as saved with a head, by old versions
        old = {"LayerNorm.weight": "LayerNorm.gamma", "LayerNorm.bias": "LayerNorm.beta"}
        renamed = {}
        for name, value in tensors.items():
            for new, before in old.items():
                name = name.replace(new, before)
            renamed[f"bert.{name}"] = value
        save_file({**renamed, "classifier.weight": torch.ones(2, 32)}, folder / "model.safetensors")
    else:
        torch.save(tensors, folder / "pytorch_model.bin", _use_new_zipfile_serialization=form == "bin")
    assert_same_weights(load_encoder(folder).model, tiny("bert"))


@pytest.mark.parametrize("family", ["modernbert", "deberta-v3", "distilbert", "mpnet"])
def test_other_families_are_loaded_as_transformers_loads_them(tmp_path, family):
    tiny(family).save_pretrained(tmp_path)
    ours = load_encoder(tmp_path).model
    theirs = AutoModel.from_pretrained(tmp_path, dtype=torch.float32)
    assert_same_weights(ours, theirs)
    assert ours.config.to_dict() == theirs.config.to_dict()
    assert (ours.name_or_path, ours.training) == (theirs.name_or_path, False)
    own = dict(ours.named_buffers())
    assert all(torch.equal(own[name], value) for name, value in theirs.named_buffers())


@pytest.mark.parametrize(
    ("setting", "value", "words"),
    [
        ("num_hidden_layers", 10**9, "found 1000000000; expected a number of at most 10,000"),
        ("num_hidden_layers", 9000, "9000 layers; the weights have only"),
        ("num_hidden_layers", 20, "describes an encoder of .* parameters; the weights beside it have"),
        ("num_hidden_layers", "many", "could not be loaded|layers"),
        ("vocab_size", 2 * 10**9, "describes an encoder of 64,0"),
        ("intermediate_size", 2**30, "describes an encoder of"),
        ("hidden_size", 0, "encoder"),
        ("hidden_size", -5, "encoder"),
        ("num_attention_heads", 0, "encoder"),
        ("hidden_act", "no such", "could not be loaded"),
    ],
)
def test_a_configuration_that_does_not_fit_the_weights(folder, setting, value, words):
    change(folder / "config.json", **{setting: value})
    with pytest.raises(WeftError, match=words):
        load_encoder(folder)


@pytest.mark.parametrize("name", ["model.safetensors", "vocab.txt", "tokenizer.json", "config.json"])
@pytest.mark.parametrize("kind", ["link", "pipe"])
def test_links_and_pipes_are_refused(folder, tmp_path, name, kind):
    (tmp_path / "secret").write_text("key")
    (folder / name).unlink(missing_ok=True)
    if kind == "link":
        (folder / name).symlink_to(tmp_path / "secret")
    else:
        os.mkfifo(folder / name)
    for load in (load_encoder, load_tokenizer):
        with pytest.raises(WeftError, match=rf"{name} is a|no config\.json|is missing"):
            load(folder)


@pytest.mark.parametrize(
    "damage",
    [b"", b"{", b"[]", b"\xff", b'{"version": 1}', b"[" * 20_000, b'{"added_tokens": 3, "model": {}}'],
)
def test_a_damaged_tokenizer_is_answered(folder, damage):
    (folder / "tokenizer.json").write_bytes(damage)
    with pytest.raises(WeftError, match=r"the tokenizer of encoder .* could not be loaded: "):
        load_tokenizer(folder)


@pytest.mark.parametrize("damage", ["{", "[1]", "[" * 20_000, '{"added_tokens_decoder": {"x": 1}}'])
def test_a_damaged_tokenizer_config_is_answered(folder, damage):
    (folder / "tokenizer_config.json").write_text(damage)
    with pytest.raises(WeftError, match="tokenizer"):
        load_tokenizer(folder)
