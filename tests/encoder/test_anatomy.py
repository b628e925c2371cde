from __future__ import annotations

import pytest
from torch import nn
from transformers import AutoConfig, AutoModel

import weft
from tests.support.tiny import _SIZES, FAMILIES, tiny
from weft.encoder import anatomy
from weft.encoder.anatomy import register_family, sites_of
from weft.encoder.sites import BLOCK_LINEAR, KINDS, LINEAR
from weft.errors import WeftError

EVERYWHERE = {
    *BLOCK_LINEAR,
    "norm_1",
    "norm_2",
    "embeddings_norm",
    "scores",
    "embeddings",
    "attention_delta",
    "ffn_delta",
    "block",
    "top",
}
LACKS = {
    "distilbert": {"pooler"},
    "electra": {"pooler"},
    "deberta-v3": {"pooler"},
    "deberta-v2": {"pooler"},
    "modernbert": {"pooler"},
}


@pytest.mark.parametrize("family", FAMILIES)
def test_the_sites_of_a_family(family):
    sites = sites_of(tiny(family))
    expected = set(KINDS) - LACKS.get(family, set()) - ({"final_norm"} if family != "modernbert" else set())
    assert {s.kind for s in sites} == expected
    assert expected >= EVERYWHERE


@pytest.mark.parametrize("family", FAMILIES)
def test_widths_are_those_of_the_maps(family):
    encoder = tiny(family)
    for site in sites_of(encoder):
        if site.kind in LINEAR:
            module = encoder.get_submodule(site.path)
            assert (site.in_width, site.out_width * site.part[1]) == (module.in_features, module.out_features)


def test_a_missing_site_is_named_with_its_reason():
    sites = sites_of(tiny("modernbert"))
    with pytest.raises(WeftError, match=r"'norm_1' does not exist in layer 0 .*Identity"):
        sites.select(["norm_1"])
    assert {s.layer for s in sites.select(["norm_1"], "1-2")} == {1, 2}
    assert {s.layer for s in sites.available(["norm_1"])} == {1, 2}
    with pytest.raises(WeftError, match=r"'pooler' does not exist anywhere of this modernbert encoder"):
        sites.select(["pooler"])
    with pytest.raises(WeftError, match=r"'final_norm' does not exist anywhere of this bert"):
        sites_of(tiny("bert")).select(["final_norm"])
    without = AutoConfig.for_model("deberta-v2", **_SIZES, relative_attention=False)
    with pytest.raises(WeftError, match="relative_attention"):
        sites_of(AutoModel.from_config(without)).select(["scores"])


def test_an_unknown_family_built_like_a_known_one_is_told_how_to_join(monkeypatch):
    encoder = AutoModel.from_config(AutoConfig.for_model("data2vec-text", **_SIZES))
    with pytest.raises(WeftError) as wrong:
        weft.Model(encoder, [weft.Task("a", size=2)])
    text = str(wrong.value)
    assert "'data2vec-text'" in text
    assert "register_family('data2vec-text', 'bert')" in text
    assert "CONTRIBUTING" in text
    monkeypatch.setattr(anatomy, "FAMILIES", dict(anatomy.FAMILIES))
    register_family("data2vec-text", "bert")
    assert sites_of(encoder).num_layers == 2
    with pytest.raises(WeftError, match="already"):
        register_family("data2vec-text", "bert")


def test_an_unknown_family_is_told_what_is_missing():
    settings = {"vocab_size": 99, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64}
    gpt = AutoModel.from_config(AutoConfig.for_model("gpt2", **settings))
    with pytest.raises(WeftError, match=r"'gpt2' \(GPT2Model\) has no anatomy[^$]*no list of blocks"):
        sites_of(gpt)
    esm = AutoModel.from_config(AutoConfig.for_model("esm", **_SIZES, pad_token_id=1, mask_token_id=4))
    with pytest.raises(WeftError, match=r"'esm'[^$]*nearest to '\w+', but for: "):
        sites_of(esm)


def test_what_is_no_encoder_is_refused():
    with pytest.raises(WeftError, match="Linear without a config"):
        sites_of(nn.Linear(2, 2))


@pytest.mark.parametrize(("key", "value"), [("chunk_size_feed_forward", 4), ("is_decoder", True)])
def test_configurations_that_would_break_sites_are_refused(key, value):
    encoder = AutoModel.from_config(AutoConfig.for_model("bert", **_SIZES, **{key: value}))
    with pytest.raises(WeftError, match=key):
        sites_of(encoder)
