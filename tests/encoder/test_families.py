"""What a family needs, and what users are told where it is missing."""

from __future__ import annotations

import json
import re
from importlib.metadata import version

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import CONFIG_MAPPING, AutoConfig, AutoModel

import weft
from tests.support.tiny import CORE_CONFIGS, CORE_FAMILIES, TASKS, build, tiny
from weft.encoder import families
from weft.encoder.anatomy import sites_of
from weft.encoder.catalogue import ARCHITECTURES, check_name
from weft.encoder.config_file import read_encoder_config
from weft.encoder.families import FAMILIES, check_installed
from weft.encoder.load import load_encoder
from weft.encoder.restart import restart_block
from weft.errors import WeftError

NEWER = [name for name in FAMILIES if FAMILIES[name].since is not None]


def release(text):
    return [int(part) for part in text.split(".")[:2]]


@pytest.mark.parametrize("member", FAMILIES)
def test_a_family_is_in_transformers_from_the_release_that_its_table_names(member):
    since = FAMILIES[member].since
    newer = since is None or release(version("transformers")) >= release(since)
    assert (member in CONFIG_MAPPING) is newer


@pytest.mark.parametrize("member", NEWER)
def test_an_older_transformers_is_named_with_what_to_type(member, tmp_path, monkeypatch):
    monkeypatch.setattr(families, "version", lambda package: "5.1.0")
    since = re.escape(FAMILIES[member].since)
    words = rf"'{member}' needs transformers {since} or later; found 5\.1\.0\n  type: pip install"
    with pytest.raises(WeftError, match=words):
        check_installed(member)
    (tmp_path / "config.json").write_text(json.dumps({"model_type": member, "hidden_size": 32}))
    with pytest.raises(WeftError, match=rf"config\.json: encoder family {words}"):
        load_encoder(tmp_path)
    for name, (model_type, _) in ARCHITECTURES.items():
        if model_type == member:
            with pytest.raises(WeftError, match=words):
                check_name(f"random:{name}")


def test_a_release_of_a_developer_and_of_the_future(monkeypatch):
    for installed in ("5.20.0.dev0", "5.20", "6.0.0"):
        monkeypatch.setattr(families, "version", lambda package, installed=installed: installed)
        check_installed("ultrabert")


@pytest.mark.skipif("nomic_bert" not in CORE_FAMILIES, reason="this transformers does not have the family")
def test_a_configuration_for_an_encoders_own_code_is_refused(tmp_path):
    """transformers would ignore its keys, and build an encoder of the default size."""
    path = tmp_path / "config.json"
    path.write_text(json.dumps({"model_type": "nomic_bert", "n_embd": 768, "n_layer": 24}))
    with pytest.raises(WeftError, match=r"n_embd is set, and hidden_size is not[^$]*hf download nomic-ai"):
        read_encoder_config(path, "nomic")
    path.write_text(json.dumps({"model_type": "nomic_bert", "n_embd": 768, "hidden_size": 768}))
    assert read_encoder_config(path, "nomic").settings["hidden_size"] == 768


@pytest.mark.parametrize(
    ("member", "key", "value"),
    [
        ("albert", "inner_group_num", 2),
        ("deberta", "relative_attention", False),
        ("deberta", "talking_head", True),
    ],
)
def test_what_a_family_can_be_configured_to_but_weft_cannot_weave(member, key, value):
    model_type, settings = CORE_CONFIGS[member]
    encoder = AutoModel.from_config(AutoConfig.for_model(model_type, **(settings | {key: value})))
    with pytest.raises(
        WeftError, match=rf"has {key} = {value}; for the family '{member}' weft supports only"
    ):
        weft.Model(encoder, TASKS, "lora")


def without(folder, part):
    """Delete the tensors whose names contain this from a saved encoder."""
    path = folder / "model.safetensors"
    save_file({k: v for k, v in load_file(path).items() if part not in k}, path, metadata={"format": "pt"})
    return folder


@pytest.mark.parametrize(
    ("member", "part"),
    [("roformer", "embed_positions"), ("esm", "contact_head"), ("esm", "rotary_embeddings")],
)
def test_a_checkpoint_may_lack_what_is_computed_or_not_used(member, part, tmp_path):
    model_type, settings = CORE_CONFIGS[member]
    torch.manual_seed(1)
    encoder = AutoModel.from_config(AutoConfig.for_model(model_type, **settings)).eval()
    encoder.save_pretrained(tmp_path)
    assert any(part in name for name in load_file(tmp_path / "model.safetensors"))
    loaded = load_encoder(without(tmp_path, part)).model
    ids = torch.arange(5, 25).view(2, 10)
    with torch.no_grad():
        assert torch.equal(loaded(ids).last_hidden_state, encoder(ids).last_hidden_state)


@pytest.mark.parametrize("member", ["esm", "albert", "rembert"])
def test_a_pooler_that_a_checkpoint_lacks_is_left_out(member, tmp_path):
    tiny(member).save_pretrained(tmp_path)
    encoder = load_encoder(without(tmp_path, "pooler"))
    assert encoder.model.pooler is None
    assert "no weights for its pooler" in encoder.notes[-1]
    assert not any(site.kind == "pooler" for site in sites_of(encoder.model))


def test_a_large_albert_without_a_pooler_has_more_layers_than_tensors(tmp_path):
    settings = CORE_CONFIGS["albert"][1] | {"num_hidden_groups": 1, "num_hidden_layers": 24}
    AutoModel.from_config(AutoConfig.for_model("albert", **settings)).save_pretrained(tmp_path)
    assert len(load_file(without(tmp_path, "pooler") / "model.safetensors")) < 24
    assert sites_of(load_encoder(tmp_path).model).num_layers == 1


def test_the_layers_of_an_albert_are_its_groups():
    model = build("albert", {"use": "lora", "layers": "1"})
    assert [site.key for site, _ in model.placements] == ["1/query", "1/value"]
    with pytest.raises(WeftError, match="layers '6-11' is outside the encoder, whose layers are 0-1"):
        build("albert", {"use": "lora", "layers": "6-11"})


@pytest.mark.parametrize("member", CORE_FAMILIES)
def test_a_block_that_starts_again_has_norms_that_are_the_identity(member):
    encoder = tiny(member)
    restart_block(encoder, 1, 5)
    for site in sites_of(encoder):
        if site.layer == 1 and site.kind in ("norm_1", "norm_2"):
            norm = encoder.get_submodule(site.path)
            assert torch.equal(norm.weight, torch.ones(32))
            assert getattr(norm, "bias", None) is None or not norm.bias.any()
    if member == "deberta":
        attention = encoder.encoder.layer[1].attention.self
        assert not attention.q_bias.any()
        assert not attention.v_bias.any()
