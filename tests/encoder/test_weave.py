"""Weaving at every site of every family."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import weft
from tests.support.probe import Probe
from tests.support.tiny import CORE_FAMILIES, tiny
from tests.support.weaving import BOTH, EVERY, everywhere, inputs, route_for, zero_term
from weft.encoder.anatomy import anatomy_of, sites_of
from weft.encoder.body import WovenBody
from weft.encoder.norms import normalized
from weft.encoder.sites import LINEAR, NORM
from weft.encoder.weave import is_woven, unweave
from weft.errors import WeftError


@pytest.mark.parametrize(("family", "attention"), BOTH)
@pytest.mark.parametrize("make", [Probe, zero_term])
def test_doing_nothing_at_every_site_is_bit_equal(family, attention, make):
    bare = tiny(family, attention)
    woven = copy.deepcopy(bare)
    pairs = everywhere(woven, make)
    body = WovenBody(woven, pairs)
    given = inputs(bare)
    for mask in (given["attention_mask"], None):
        given["attention_mask"] = torch.ones_like(given["input_ids"]) if mask is None else mask
        with torch.no_grad():
            expected = bare(**given)
            hidden, _ = body.encode(route_for(given), given)
        assert torch.equal(hidden, expected.last_hidden_state)
    for site, probe in pairs:
        assert probe.seen, f"the adapter at {site.key} was never called"


@pytest.mark.parametrize("family", EVERY)
def test_every_site_acts_and_acts_on_its_own_task_alone(family):
    """A change at one site, for task 1 only, moves the rows of task 1 and no other, wherever it is."""
    bare = tiny(family)
    given = inputs(bare)
    with torch.no_grad():
        expected = bare(**given)
    encoder = bare
    for site in sites_of(bare):
        unweave(encoder)
        generator = torch.Generator().manual_seed(2)
        # not a constant vector: added to every key alike, softmax would not see it
        weight = torch.randn(
            9 if site.kind == "scores" else site.out_width, site.in_width, generator=generator
        )

        def act(x, route, weight=weight, site=site):
            term = (route.task == 1).float().view(-1, 1, 1) * F.linear(x, weight)
            if site.kind == "scores":
                return term[:, None]
            return term if site.kind in (*LINEAR, *NORM) else x + term

        body = WovenBody(encoder, [(site, Probe(site, act))])
        with torch.no_grad():
            hidden, pooled = body.encode(route_for(given), given)
        base = getattr(expected, "pooler_output", None)
        moved = (hidden, expected.last_hidden_state) if base is None else (pooled, base)
        same = [torch.allclose(a, b, atol=1e-6) for a, b in zip(*moved, strict=True)]
        assert same == [True, False, True, False], site.key


@pytest.mark.parametrize("member", CORE_FAMILIES)
def test_every_further_family_has_a_probe_at_every_site(member):
    """The cheapest property of a family runs for each: nothing changes, and every site is called."""
    test_doing_nothing_at_every_site_is_bit_equal(member, None, Probe)


@pytest.mark.parametrize("family", EVERY)
def test_deltas_and_the_residual_stream_are_what_they_are_called(family):
    encoder = tiny(family)
    sites = sites_of(encoder)
    probes = {
        (s.kind, s.layer): (s, Probe(s)) for s in sites if s.kind in ("attention_delta", "ffn_delta", "block")
    }
    body = WovenBody(encoder, list(probes.values()))
    given = inputs(encoder)
    with torch.no_grad():
        body.encode(route_for(given), given)
        for layer in range(sites.num_layers):
            (first, entered, _), *_ = probes["attention_delta", layer][1].seen
            (second, _, middle), *_ = probes["ffn_delta", layer][1].seen
            (out, *_), *_ = probes["block", layer][1].seen
            if anatomy_of(encoder).pre_norm:
                torch.testing.assert_close(middle, entered + first)
                torch.testing.assert_close(out, middle + second)
            else:
                norms = {
                    s.kind: encoder.get_submodule(s.path)
                    for s in sites
                    if s.layer == layer and s.kind in NORM
                }
                torch.testing.assert_close(middle, norms["norm_1"](entered + first))
                torch.testing.assert_close(out, norms["norm_2"](middle + second))


@pytest.mark.parametrize("family", EVERY)
def test_a_norm_is_given_its_input_normalised(family):
    encoder = tiny(family)
    pairs = [(s, Probe(s)) for s in sites_of(encoder) if s.kind in NORM]
    given = inputs(encoder)
    body = WovenBody(encoder, pairs)
    body.encode(route_for(given), given)
    for site, probe in pairs:
        seen = probe.seen[0][0][given["attention_mask"].bool()]  # ESM's embeddings of padding are zero
        again = normalized(seen, encoder.get_submodule(site.path))
        torch.testing.assert_close(seen, again, atol=1e-3, rtol=1e-3)
        torch.testing.assert_close(seen.square().mean(-1), torch.ones(seen.shape[:-1]), atol=1e-3, rtol=0)


@pytest.mark.parametrize(("family", "attention"), BOTH)
def test_a_term_on_the_scores_can_do_what_the_mask_does(family, attention):
    """A very negative term at one key, for all queries, is that key masked; padding stays masked."""
    key = 2

    def block_key(x, route):
        term = torch.zeros(1, 1, x.size(1), x.size(1))
        term[..., key] = -1e9
        return term

    encoder, bare = tiny(family, attention), tiny(family, attention)
    if family == "deberta-v2":
        encoder.encoder.conv = bare.encoder.conv = None  # it looks at neighbours that attention does not
    body = WovenBody(encoder, [(s, Probe(s, block_key)) for s in sites_of(encoder) if s.kind == "scores"])
    for padded in (True, False):
        given = inputs(encoder)
        if not padded:
            given["attention_mask"] = torch.ones_like(given["input_ids"])
        without = {**given, "attention_mask": given["attention_mask"].clone()}
        without["attention_mask"][:, key] = 0
        with torch.no_grad():
            found, _ = body.encode(route_for(given), given)
            expected = bare(**without).last_hidden_state
        others = without["attention_mask"].bool()
        torch.testing.assert_close(found[others], expected[others], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("family", EVERY)
def test_layers_are_hugging_faces_hidden_states(family):
    encoder = tiny(family)
    given = inputs(encoder)
    with torch.no_grad():
        expected = encoder(**given, output_hidden_states=True).hidden_states
        if anatomy_of(encoder).repeats:  # Hugging Face gives every run of a block
            expected = expected[:: (len(expected) - 1) // sites_of(encoder).num_layers]
        layers = [None] * len(expected)
        WovenBody(encoder).encode(route_for(given, layers), given)
    if anatomy_of(encoder).pre_norm:
        # Hugging Face gives the last one after the final norm; the block's own output is before it
        final = sites_of(encoder).select(["final_norm"])[0].path
        with torch.no_grad():
            layers[-1] = encoder.get_submodule(final)(layers[-1])
    for found, one in zip(layers, expected, strict=True):
        assert torch.equal(found, one)


@pytest.mark.parametrize("family", EVERY)
def test_unweaving_gives_the_encoder_back(family):
    encoder = tiny(family)
    plain = {n: dict(m.__dict__) for n, m in encoder.named_modules()}
    WovenBody(encoder, everywhere(encoder))
    assert is_woven(encoder)
    unweave(encoder)
    assert not is_woven(encoder)
    for name, module in encoder.named_modules():
        assert module.__dict__.keys() == plain[name].keys(), name


def test_an_encoder_is_woven_once():
    encoder = tiny("bert")
    weft.Model(encoder, [weft.Task("a", size=2)], "frozen")
    with pytest.raises(WeftError, match="already woven into a model"):
        weft.Model(encoder, [weft.Task("a", size=2)], "frozen")


def test_scores_refuse_attention_without_a_place_for_them():
    for implementation in ("flash_attention_2", "flex_attention"):
        encoder = tiny("bert")
        encoder.config._attn_implementation_internal = implementation
        site = sites_of(encoder).select(["scores"])[0]
        with pytest.raises(WeftError, match=implementation):
            WovenBody(encoder, [(site, Probe(site))])


def test_scores_keep_the_dtype_of_the_query_under_autocast():
    encoder = tiny("modernbert")  # a padded query of a local layer sees padding alone: −∞ would make NaN
    sites = [s for s in sites_of(encoder) if s.kind == "scores"]
    body = WovenBody(
        encoder, [(s, Probe(s, lambda x, route: torch.zeros(1, 1, x.size(1), x.size(1)))) for s in sites]
    )
    given = inputs(encoder, length=40)
    given["attention_mask"][:, 5:] = 0
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        hidden, _ = body.encode(route_for(given), given)
    assert hidden.isfinite().all()


def test_what_a_route_remembers_is_dropped_when_the_block_returns():
    encoder = tiny("bert")
    body = WovenBody(encoder, everywhere(encoder))
    given = inputs(encoder)
    route = route_for(given)
    body.encode(route, given)
    assert route.block_input is None
    assert route.after_attention is None
    assert body.holder.route is None
    assert torch.equal(encoder(**given).last_hidden_state, tiny("bert")(**given).last_hidden_state)


def test_a_pass_inside_another_puts_the_outer_route_back():
    encoder = tiny("bert")
    given = inputs(encoder)
    inner, seen = route_for(given), []

    def act(x, route):
        if route is not inner:
            seen.append(body.encode(inner, given)[0])
            assert body.holder.route is route
        return x

    site = sites_of(encoder).select(["block"])[0]
    terms = [(s, zero_term(s)) for s in sites_of(encoder) if s.kind in LINEAR]
    body = WovenBody(encoder, [(site, Probe(site, act)), *terms])
    outer = route_for(given)
    with torch.no_grad():
        hidden, _ = body.encode(outer, given)
        expected = tiny("bert")(**given).last_hidden_state
    assert torch.equal(hidden, expected)
    assert torch.equal(seen[0], expected)
    assert body.holder.route is None


def test_an_error_in_a_pass_leaves_no_route():
    encoder = tiny("bert")
    site = sites_of(encoder).select(["block"])[0]

    def fail(x, route):
        raise ZeroDivisionError

    body = WovenBody(encoder, [(site, Probe(site, fail))])
    given = inputs(encoder)
    with pytest.raises(ZeroDivisionError):
        body.encode(route_for(given), given)
    assert body.holder.route is None


def test_dropout_and_training_mode_stay_the_encoders_own():
    encoder = tiny("bert").train()
    bare = copy.deepcopy(encoder)
    body = WovenBody(encoder, everywhere(encoder))
    given = inputs(encoder)
    torch.manual_seed(0)
    expected = bare(**given).last_hidden_state
    torch.manual_seed(0)
    found, _ = body.encode(route_for(given), given)
    assert torch.equal(found, expected)
    assert not torch.equal(bare.eval()(**given).last_hidden_state, expected)
    assert isinstance(encoder, nn.Module)
