"""Projected functions against the authors' layers (golden), and what each of their parts promises."""

from __future__ import annotations

import json

import pytest
import torch
from safetensors.torch import load_file
from torch.nn import functional as F

from tests.support.golden import golden
from tests.support.tiny import tiny
from weft.adapters import ParallelAdapter, Projected, Projection, StackedAttention, StackedFeedForward
from weft.adapters.attention import name_attentions
from weft.core.route import Route
from weft.core.stacked import Slots
from weft.encoder import sites_of
from weft.encoder.body import WovenBody
from weft.errors import WeftError

NEAR = {"rtol": 0, "atol": 1e-5}


def read(name):
    folder = golden("bert_n_pals")
    config = json.loads((folder / f"{name}.json").read_text())["config"]
    return config, load_file(folder / f"{name}.safetensors")


@torch.no_grad()
def filled(config, tensors, name, slots, slot, attention=True):
    """Their layer `name` in one slot of a function of ours."""
    size = config["hidden_size_aug"]
    pair = Projection(config["hidden_size"], size, slots, 0, "")
    inside = StackedAttention(size, 6, slots, 0, "") if attention else "gelu"
    for theirs, ours in (("aug_dense", pair.down), ("aug_dense2", pair.up)):
        for part in ("weight", "bias"):
            ours.get_parameter(part)[slot] = tensors[f"{name}{theirs}.{part}"]
    if attention:
        for part in ("weight", "bias"):
            three = [tensors[f"{name}attn.{k}.{part}"] for k in ("query", "key", "value")]
            inside.qkv.get_parameter(part)[slot] = torch.cat(three)
    return Projected(pair, inside, "gelu" if attention else "identity").eval()


@pytest.mark.parametrize("name", ["pal_layer", "low_rank_layer"])
def test_the_authors_layers(name):
    config, tensors = read(name)
    slots = Slots.per_task(["other", "own"])
    function = filled(config, tensors, "param.", slots, 1, attention=name == "pal_layer")
    x = tensors["in.hidden_states"]
    route = Route(torch.ones(3, dtype=torch.long), tensors["in.attention_mask_2d"].bool())
    with torch.no_grad():
        small = function.project.down(x, route)
        torch.testing.assert_close(small, tensors["mid.encoded"], **NEAR)
        if name == "pal_layer":
            small = function.inside(small, route)
            torch.testing.assert_close(small, tensors["mid.attended"], **NEAR)
            wide = function.project.up(small, route)
            torch.testing.assert_close(wide, tensors["mid.decoded_before_gelu"], **NEAR)
        else:
            torch.testing.assert_close(F.gelu(small), tensors["mid.encoded_gelu"], **NEAR)
        torch.testing.assert_close(function(x, route), tensors["out"], **NEAR)


def test_the_authors_layer_with_its_pal():
    """The whole block: what enters where, by values in between."""
    from transformers import BertConfig, BertModel

    config, tensors = read("pal_bert_layer")
    sizes = {k: config[k] for k in ("hidden_size", "num_attention_heads", "intermediate_size", "vocab_size")}
    encoder = BertModel(BertConfig(**sizes, num_hidden_layers=1, layer_norm_eps=1e-12)).eval()
    block = encoder.encoder.layer[0]
    renamed = {"gamma": "weight", "beta": "bias"}
    state = {}
    for key, value in tensors.items():
        if key.startswith("param.") and "multi_layers" not in key:
            path, _, last = key.removeprefix("param.").rpartition(".")
            state[f"{path}.{renamed.get(last, last)}"] = value
    block.load_state_dict(state)
    slots = Slots.per_task(["a", "b", "c"])
    (site,) = sites_of(encoder).select(["ffn_delta"])
    function = filled(config, tensors, "param.multi_layers.1.", slots, 1)
    body = WovenBody(encoder, [(site, ParallelAdapter(site, function, "attention_input"))])
    mask = tensors["in.attention_mask_ext"]
    route = Route(torch.ones(3, dtype=torch.long), mask[:, 0, 0] == 0)
    body.holder.route = route
    with torch.no_grad():
        out = block(tensors["in.hidden_states"], attention_mask=mask)
        extra = function(tensors["in.hidden_states"], route)
    out = out if isinstance(out, torch.Tensor) else out[0]
    torch.testing.assert_close(extra, tensors["mid.extra"], **NEAR)
    torch.testing.assert_close(out, tensors["out"], **NEAR)


def test_an_attention_is_torchs_own():
    """The same numbers as nn.MultiheadAttention with its weights, W^o and a padding mask."""
    slots = Slots.per_task(["a", "b"])
    ours = StackedAttention(12, 3, slots, 0, "", output=True).eval()
    for parameter in ours.parameters():
        torch.nn.init.normal_(parameter, std=0.5, generator=torch.Generator().manual_seed(1))
    theirs = torch.nn.MultiheadAttention(12, 3, batch_first=True).eval()
    with torch.no_grad():
        theirs.in_proj_weight.copy_(ours.qkv.weight[1])
        theirs.in_proj_bias.copy_(ours.qkv.bias[1])
        theirs.out_proj.weight.copy_(ours.out.weight[1])
        theirs.out_proj.bias.copy_(ours.out.bias[1])
    x = torch.randn(4, 7, 12, generator=torch.Generator().manual_seed(2))
    mask = torch.arange(7) < torch.tensor([7, 3, 5, 1])[:, None]
    route = Route(torch.tensor([0, 1, 1, 0]), mask, attention={})
    ours.name = "here"
    with torch.no_grad():
        found = ours(x, route)
        expected, weights = theirs(
            x, x, x, key_padding_mask=~mask, need_weights=True, average_attn_weights=False
        )
    torch.testing.assert_close(found[1:3], expected[1:3], **NEAR)
    torch.testing.assert_close(route.attention["here"][1:3], weights[1:3], **NEAR)


def test_heads_must_divide_the_width():
    with pytest.raises(WeftError, match="width 204 cannot have 5 heads; expected a divisor of 204, such as"):
        StackedAttention(204, 5, Slots.one(["a"]), 0, "")


def test_several_attentions_at_one_site_have_names_of_their_own():
    slots = Slots.one(["a"])
    both = torch.nn.ModuleList([StackedAttention(4, 2, slots, 0, "", name="1/block") for _ in range(3)])
    name_attentions(both)
    assert [one.name for one in both] == ["1/block", "1/block.2", "1/block.3"]


def test_feed_forward_layers_are_as_many_as_asked_for():
    slots = Slots.per_task(["a"])
    network = StackedFeedForward(6, [5, 4], slots, 3, "here")
    x = torch.randn(2, 3, 6)
    route = Route(torch.zeros(2, dtype=torch.long))
    first, second, third = network.maps
    with torch.no_grad():
        expected = third(F.gelu(second(F.gelu(first(x, route)), route)), route)
        torch.testing.assert_close(network(x, route), expected)
    assert [tuple(m.weight.shape) for m in network.maps] == [(1, 5, 6), (1, 4, 5), (1, 6, 4)]


def test_a_tied_projection_is_one_in_every_layer():
    import weft
    from tests.support.tiny import TASKS

    for share, distinct in (("layers", 1), ("both", 1), ("tasks", 2), ("none", 2)):
        model = weft.Model(tiny("bert"), TASKS, {"use": "pals", "d_s": 6, "share": share})
        pairs = [adapter.function.project for _, adapter in model.placements]
        assert len({id(pair) for pair in pairs}) == distinct
        slots = 1 if share in ("tasks", "both") else len(TASKS)
        assert all(pair.down.weight.size(0) == slots for pair in pairs)
