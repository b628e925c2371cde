"""Sites are what their names say: the hidden layer of the FFN, query, key, value and gate."""

from __future__ import annotations

import copy
from dataclasses import replace

import pytest
import torch
from torch.nn import functional as F

from tests.support.probe import Probe
from tests.support.tiny import CORE_FAMILIES, FAMILIES, tiny
from tests.support.weaving import EVERY, inputs, route_for
from weft.encoder.anatomy import sites_of
from weft.encoder.body import WovenBody
from weft.encoder.families import FAMILIES as TABLES
from weft.encoder.weave import unweave
from weft.errors import WeftError


@pytest.mark.parametrize("family", FAMILIES)
def test_ffn_hidden_is_what_the_output_map_reads(family):
    """The activation of ffn_in's output; in a gated feed-forward part, its product with the gate."""
    encoder = tiny(family)
    sites = sites_of(encoder)
    found = {(s.kind, s.layer): s for s in sites}
    kinds = ("ffn_in", "ffn_hidden", "ffn_delta")
    pairs = [(s, Probe(s)) for s in sites if s.kind in kinds]
    probes = {(s.kind, s.layer): probe for s, probe in pairs}
    given = inputs(encoder)
    with torch.no_grad():
        WovenBody(encoder, pairs).encode(route_for(given), given)
        plain = unweave(copy.deepcopy(encoder))
        for layer in range(sites.num_layers):
            (read, *_), (hidden, *_), (delta, *_) = (probes[kind, layer].seen[0] for kind in kinds)
            assert hidden.size(-1) == found["ffn_hidden", layer].in_width == 40
            torch.testing.assert_close(plain.get_submodule(found["ffn_out", layer].path)(hidden), delta)
            wide = plain.get_submodule(found["ffn_in", layer].path)(read)
            if wide.size(-1) > hidden.size(-1):
                wide, gate = wide.chunk(2, -1)
                torch.testing.assert_close(hidden, F.gelu(wide) * gate)
            else:
                torch.testing.assert_close(hidden, F.gelu(wide))


def test_a_family_without_an_output_map_has_no_ffn_hidden(monkeypatch):
    places = {kind: place for kind, place in TABLES["bert"].in_block.items() if kind != "ffn_out"}
    monkeypatch.setitem(TABLES._entries, "bert", replace(TABLES["bert"], in_block=places))
    with pytest.raises(WeftError, match=r"site 'ffn_hidden' does not exist .* has no 'ffn_out'"):
        sites_of(tiny("bert")).select(["ffn_hidden"])


def test_the_adapters_of_the_output_map_read_what_ffn_hidden_returns():
    encoder = tiny("bert")
    sites = {(s.kind, s.layer): s for s in sites_of(encoder)}
    before = Probe(sites["ffn_hidden", 0], lambda x, route: 2 * x)
    after = Probe(sites["ffn_out", 0])
    given = inputs(encoder)
    with torch.no_grad():
        pairs = [(sites["ffn_out", 0], after), (sites["ffn_hidden", 0], before)]
        WovenBody(encoder, pairs).encode(route_for(given), given)
    assert torch.equal(after.seen[0][0], 2 * before.seen[0][0])


def context(encoder, site=None, act=None):
    """What the lowest block's `attention_out` reads, with this adapter at a site."""
    reads = sites_of(encoder).select(["attention_out"], [0])[0]
    probe = Probe(reads)
    pairs = [(reads, probe)] if site is None else [(reads, probe), (site, Probe(site, act))]
    given = inputs(encoder)
    with torch.no_grad():
        WovenBody(unweave(encoder), pairs).encode(route_for(given), given)
    return probe.seen[0][0]


# where the relative positions pass through the query's and key's map, an adapter there reaches every token
@pytest.mark.parametrize("family", [family for family in EVERY if family != "deberta-v3"])
def test_query_key_and_value_are_what_they_are_called(family):
    """A query concerns its token alone, a key others too; a constant on all values moves what is attended."""
    encoder = tiny(family)
    sites = {site.kind: site for site in sites_of(encoder) if site.layer == 0}
    before = context(encoder)

    moved = {}
    for kind in ("query", "key", "value"):
        term = torch.zeros(9, sites[kind].out_width)
        term[2] = torch.linspace(-1, 1, term.size(-1))
        found = context(encoder, sites[kind], lambda x, route, term=term: term)
        moved[kind] = (found - before).abs().amax(-1)[0] > 1e-6
    assert moved["query"].nonzero().flatten().tolist() == [2]
    assert moved["key"].sum() > 4
    assert moved["value"].sum() > 4
    constant = torch.linspace(-1, 1, sites["value"].out_width)
    shifted = context(encoder, sites["value"], lambda x, route: constant) - before
    heads, groups = encoder.config.num_attention_heads, before.size(-1) // constant.numel()
    expected = constant.unflatten(0, (heads // groups, -1)).repeat_interleave(groups, 0).flatten()
    torch.testing.assert_close(shifted[0], expected.expand_as(shifted[0]), atol=1e-5, rtol=0)


@pytest.mark.parametrize("family", ["nomic_bert", "gte", "eurobert", "ultrabert"])
def test_the_gate_is_the_map_under_the_activation(family):
    """act(gate(x)) ⊙ in(x): twice the one is twice the product, twice the other is not."""
    if family not in CORE_FAMILIES:
        pytest.skip("this version of transformers does not have the family")
    encoder = tiny(family)
    sites = {site.kind: site for site in sites_of(encoder) if site.layer == 0}
    products = {}
    for kind in (None, "ffn_in", "ffn_gate"):
        pairs = [(sites["ffn_out"], probe := Probe(sites["ffn_out"]))]
        if kind is not None:
            linear = encoder.get_submodule(sites[kind].path)
            double = Probe(
                sites[kind], lambda x, route, linear=linear: F.linear(x, linear.weight, linear.bias)
            )
            pairs.append((sites[kind], double))
        given = inputs(encoder)
        with torch.no_grad():
            WovenBody(unweave(encoder), pairs).encode(route_for(given), given)
        products[kind] = probe.seen[0][0]
    torch.testing.assert_close(products["ffn_in"], 2 * products[None])
    assert not torch.allclose(products["ffn_gate"], 2 * products[None], atol=0.1)
