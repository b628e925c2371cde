from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import nn
from transformers import AutoConfig, AutoModel, Data2VecTextConfig, Data2VecTextModel

import weft
from tests.support.tiny import _SIZES, CORE_FAMILIES, FAMILIES, tiny
from weft.encoder.anatomy import anatomy_of, longest_row, sites_of
from weft.encoder.families import FAMILIES as KNOWN
from weft.encoder.families import register_family
from weft.encoder.sites import BLOCK_LINEAR, KINDS, LINEAR
from weft.errors import WeftError

EVERY = [*FAMILIES, *CORE_FAMILIES]
EVERYWHERE = {
    *BLOCK_LINEAR,
    "norm_1",
    "norm_2",
    "scores",
    "embeddings",
    "attention_delta",
    "ffn_hidden",
    "ffn_delta",
    "block",
    "top",
}
POST_NORM, GATE, POOLER, EMBEDDED = {"final_norm"}, {"ffn_gate"}, {"pooler"}, {"embeddings_norm"}
LACKS = {
    **dict.fromkeys(FAMILIES, GATE | POST_NORM),
    **dict.fromkeys(("distilbert", "electra", "deberta-v3", "deberta-v2"), GATE | POST_NORM | POOLER),
    "modernbert": GATE | POOLER,
    **dict.fromkeys(("ernie", "data2vec-text", "rembert", "albert"), GATE | POST_NORM),
    **dict.fromkeys(("roformer", "deberta"), GATE | POST_NORM | POOLER),
    **dict.fromkeys(("megatron-bert", "xlm-roberta-xl", "esm"), GATE | EMBEDDED),
    "roberta-prelayernorm": GATE,
    **dict.fromkeys(("nomic_bert", "gte"), POST_NORM | POOLER),
    "jina_embeddings_v3": GATE | POST_NORM,
    **dict.fromkeys(("eurobert", "ultrabert"), EMBEDDED | POOLER),
}
"""What docs/encoders.md lists."""


@pytest.mark.parametrize("family", EVERY)
def test_the_sites_of_a_family(family):
    sites = sites_of(tiny(family))
    expected = set(KINDS) - LACKS[family]
    assert {s.kind for s in sites} == expected
    assert expected >= EVERYWHERE
    for kind in LACKS[family]:
        with pytest.raises(WeftError, match=rf"site '{kind}' does not exist .* of this .* encoder: "):
            sites.select([kind])


@pytest.mark.parametrize("family", EVERY)
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
    encoder = AutoModel.from_config(AutoConfig.for_model("splinter", **_SIZES))
    with pytest.raises(WeftError) as wrong:
        weft.Model(encoder, [weft.Task("a", size=2)])
    text = str(wrong.value)
    assert "'splinter'" in text
    assert "register_family('splinter', 'bert')" in text
    assert "docs/extension.md" in text
    monkeypatch.setattr(KNOWN, "_entries", dict(KNOWN._entries))
    register_family("splinter", "bert")
    assert sites_of(encoder).num_layers == 2
    with pytest.raises(WeftError, match="'splinter' is known already: leave out register_family"):
        register_family("splinter", "bert")


LONGEST = {
    # the table has 64 places; with padding id 1 the first two are never used
    **dict.fromkeys(("bert", "electra", "distilbert", "deberta-v2"), 64),
    **dict.fromkeys(("roberta", "xlm-roberta", "camembert", "mpnet"), 62),
    **dict.fromkeys(("deberta-v3", "modernbert"), None),
    **dict.fromkeys(("ernie", "rembert", "roformer", "albert", "megatron-bert"), 64),
    **dict.fromkeys(("data2vec-text", "roberta-prelayernorm", "xlm-roberta-xl"), 62),
    # rotations and relative positions are computed for any length
    **dict.fromkeys(("deberta", "esm", "nomic_bert", "gte", "jina_embeddings_v3"), None),
    **dict.fromkeys(("eurobert", "ultrabert"), None),
}


@pytest.mark.parametrize("family", EVERY)
def test_the_longest_row_is_what_the_table_of_positions_holds(family):
    encoder = tiny(family)
    longest = longest_row(encoder)
    assert longest == LONGEST[family]
    rows = torch.full((1, (longest or 80) + 1), 9)
    assert encoder(rows[:, :-1]).last_hidden_state.shape == (1, longest or 80, 32)
    if longest is not None:
        with pytest.raises((IndexError, RuntimeError)):
            encoder(rows)


@pytest.mark.parametrize("like", ["bert", "roberta"])
def test_positions_are_numbered_as_the_family_does_whatever_it_is_registered_like(monkeypatch, like):
    """data2vec-text numbers positions from the padding id on: 514 places take rows of 512 tokens."""
    monkeypatch.setattr(KNOWN, "_entries", {k: v for k, v in KNOWN._entries.items() if k != "data2vec-text"})
    register_family("data2vec-text", like)
    sizes = _SIZES | {"max_position_embeddings": 514}
    encoder = Data2VecTextModel(Data2VecTextConfig(**sizes)).eval()
    assert encoder.config.pad_token_id == 1
    assert longest_row(encoder) == 512
    model = weft.Model(encoder, [weft.Task("a", size=2)], max_length=512)
    ids = torch.full((1, 512), 9)
    out = model(input_ids=ids, attention_mask=torch.ones_like(ids), task=torch.zeros(1, dtype=torch.long))
    assert out.hidden.shape == (1, 512, 32)
    with pytest.raises(WeftError, match="expected at most 512"):
        model.set_max_length(513)
    assert anatomy_of(encoder).classifier is None  # its classifier is not that of the family it is built like


def test_a_table_may_say_its_first_position(monkeypatch):
    monkeypatch.setattr(KNOWN, "_entries", dict(KNOWN._entries))
    register_family("splinter", replace(KNOWN["bert"], first_position=10))
    encoder = AutoModel.from_config(AutoConfig.for_model("splinter", **_SIZES))
    assert longest_row(encoder) == 54


def test_an_unknown_family_is_told_what_is_missing():
    settings = {"vocab_size": 99, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64}
    gpt = AutoModel.from_config(AutoConfig.for_model("gpt2", **settings))
    with pytest.raises(WeftError, match=r"'gpt2' \(GPT2Model\) has no anatomy[^$]*no list of blocks"):
        sites_of(gpt)
    bottlenecks = AutoModel.from_config(AutoConfig.for_model("mobilebert", **_SIZES))
    with pytest.raises(WeftError, match=r"'mobilebert'[^$]*nearest to '[\w-]+', but lacks: "):
        sites_of(bottlenecks)


def test_what_is_no_encoder_is_refused():
    with pytest.raises(WeftError, match="Linear without a config"):
        sites_of(nn.Linear(2, 2))


@pytest.mark.parametrize(("key", "value"), [("chunk_size_feed_forward", 4), ("is_decoder", True)])
def test_configurations_that_would_break_sites_are_refused(key, value):
    encoder = AutoModel.from_config(AutoConfig.for_model("bert", **_SIZES, **{key: value}))
    with pytest.raises(WeftError, match=key):
        sites_of(encoder)
