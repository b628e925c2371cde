"""Where the functions of "BERT and PALs" enter, in every family, by hand."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

from tests.support.tiny import FAMILIES, batch, build, scramble, tiny
from weft.core.route import Route
from weft.encoder.anatomy import sites_of

NEAR = {"rtol": 0, "atol": 1e-5}


def last(family):
    return sites_of(tiny(family)).num_layers - 1


def bare(family, inputs):
    """Layers of the bare encoder, and what enters and leaves the last block's modules, by site kind."""
    model = build(family, "frozen")
    seen = {}
    for site in sites_of(model.encoder):
        if site.layer == last(family) and site.kind in ("norm_1", "norm_2", "attention_delta", "ffn_delta"):
            module = model.encoder.get_submodule(site.path)
            module.register_forward_hook(lambda m, i, o, k=site.kind: seen.update({k: (i[0], o, m)}))
    with torch.no_grad():
        output = model.run(**inputs, layers=True)
    return output, seen


def woven(family, method, **settings):
    """A model with adapters in the last block alone, or on top, and its bare counterpart on the same rows."""
    model = scramble(build(family, method, **settings))
    inputs = batch(model)
    with torch.no_grad():
        output = model.run(**inputs, layers=True)
    route = Route(inputs["task"], inputs["attention_mask"].bool())
    return model, output, route, *bare(family, inputs)


def adapter_at(model, kind):
    (found,) = [a for site, a in model.placements if site.kind == kind]
    return found


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("method", ["pals", "pals_lhuc", "low_rank"])
def test_parallel_reads_what_the_attention_reads_and_joins_the_last_residual(family, method):
    spec = {"use": method, "d_s": 12, "layers": [last(family)]}
    model, output, route, base, seen = woven(family, spec)
    pre_norm = sites_of(tiny(family)).pre_norm
    block_input = base.layers[-2]
    reads = seen["norm_1"][1] if pre_norm else block_input
    with torch.no_grad():
        extra = adapter_at(model, "ffn_delta").function(reads, route)
        if pre_norm:
            expected = base.layers[-1] + extra
        else:
            stream, _, norm = seen["norm_2"]  # FFN(a) + a
            expected = F.layer_norm(stream + extra, norm.normalized_shape, norm.weight, norm.bias, norm.eps)
    assert extra.abs().max() > 0.01
    torch.testing.assert_close(output.layers[-1], expected, **NEAR)
    for n in range(last(family) + 1):
        assert torch.equal(output.layers[n], base.layers[n])


@pytest.mark.parametrize("family", FAMILIES)
def test_serial_comes_after_the_block_with_a_norm_of_its_own(family):
    spec = {"use": "low_rank", "d_s": 5, "connection": "serial", "layers": [last(family)]}
    model, output, route, base, _ = woven(family, spec)
    adapter = adapter_at(model, "block")
    block = base.layers[-1]
    with torch.no_grad():
        if sites_of(tiny(family)).pre_norm:
            expected = block + adapter.function(adapter.norm(block, route), route)
        else:
            expected = adapter.norm(block + adapter.function(block, route), route)
    torch.testing.assert_close(output.layers[-1], expected, **NEAR)


@pytest.mark.parametrize("family", ["bert", "mpnet", "deberta-v3", "distilbert"])
def test_houlsby_sits_on_both_sub_layers_before_their_residuals(family):
    spec = {"use": "houlsby", "size": 5, "layers": [last(family)], "norms": "none"}
    model, output, route, base, seen = woven(family, spec)
    attention, ffn = (adapter_at(model, kind).function for kind in ("attention_delta", "ffn_delta"))
    encoder = tiny(family)
    at = {s.kind: encoder.get_submodule(s.path) for s in sites_of(encoder) if s.layer == last(family)}
    with torch.no_grad():
        delta = seen["attention_delta"][1]
        delta = delta if isinstance(delta, torch.Tensor) else delta[0]
        a = at["norm_1"](base.layers[-2] + delta + attention(delta, route))
        f = at["ffn_out"](F.gelu(at["ffn_in"](a)))
        expected = at["norm_2"](a + f + ffn(f, route))
    torch.testing.assert_close(output.layers[-1], expected, **NEAR)


def test_houlsby_parallel_reads_what_the_feed_forward_part_reads():
    for family in ("bert", "modernbert"):
        n = last(family)
        spec = {"use": "houlsby_parallel", "d_s": 5, "layers": [n]}
        model, output, route, base, seen = woven(family, spec)
        low, beside = adapter_at(model, "attention_delta").function, adapter_at(model, "ffn_delta").function
        encoder = tiny(family)
        at = {s.kind: encoder.get_submodule(s.path) for s in sites_of(encoder) if s.layer == n}
        with torch.no_grad():
            delta = seen["attention_delta"][1]
            stream = base.layers[-2] + delta + low(delta, route)
            if family == "modernbert":
                x = at["norm_2"](stream)
                expected = stream + encoder.layers[n].mlp(x) + beside(x, route)
            else:
                a = at["norm_1"](stream)
                f = at["ffn_out"](F.gelu(at["ffn_in"](a)))
                expected = at["norm_2"](a + f + beside(a, route))
        torch.testing.assert_close(output.layers[-1], expected, **NEAR)


@pytest.mark.parametrize("family", FAMILIES)
def test_on_top_the_hidden_states_are_replaced_and_the_blocks_left_alone(family):
    _, output, _, base, _ = woven(family, {"use": "top_attention", "d_s": 12, "depth": 2})
    for one, other in zip(output.layers[:-1], base.layers[:-1], strict=True):
        assert torch.equal(one, other)
    assert output.layers[-1] is output.hidden
    assert not torch.allclose(output.hidden, base.hidden)
    if base.pooled.equal(base.hidden[:, 0]):  # no pooler
        assert torch.equal(output.pooled, output.hidden[:, 0])
    else:
        assert not torch.allclose(output.pooled, base.pooled)


def test_top_layer_is_a_layer_of_bert():
    from transformers.models.bert.modeling_bert import BertLayer

    model, output, route, base, _ = woven("bert", "top_layer")
    ours = adapter_at(model, "top")
    config = model.encoder.config
    config.layer_norm_eps = 1e-12
    layer = BertLayer(config).eval()
    task = int(route.task[0])

    def take(source, **targets):
        for name, target in targets.items():
            target.copy_(source.get_parameter(name)[task])

    with torch.no_grad():
        qkv, own = ours.attention.inner.qkv, layer.attention.self
        for part in ("weight", "bias"):
            for mine, theirs in zip(
                qkv.get_parameter(part)[task].chunk(3), (own.query, own.key, own.value), strict=True
            ):
                getattr(theirs, part).copy_(mine)
        pairs = (
            (ours.attention.inner.out, layer.attention.output.dense),
            (ours.attention.norm, layer.attention.output.LayerNorm),
            (ours.feed_forward.inner.maps[0], layer.intermediate.dense),
            (ours.feed_forward.inner.maps[1], layer.output.dense),
            (ours.feed_forward.norm, layer.output.LayerNorm),
        )
        for mine, theirs in pairs:
            take(mine, weight=theirs.weight, bias=theirs.bias)
        mask = torch.where(route.attention_mask, 0.0, torch.finfo(torch.float32).min)[:1, None, None]
        expected = layer(base.hidden[:1], attention_mask=mask)
    expected = expected if isinstance(expected, torch.Tensor) else expected[0]
    torch.testing.assert_close(output.hidden[:1], expected, **NEAR)


def test_lhuc_scales_units():
    model, output, route, base, _ = woven("bert", {"use": "lhuc", "layers": "1"})
    scale = 2 * torch.sigmoid(adapter_at(model, "block").amplitude.l[route.task])
    torch.testing.assert_close(output.layers[-1], base.layers[-1] * scale[:, None], **NEAR)


def test_a_pooler_a_task():
    model, output, route, *_ = woven("bert", {"use": "lhuc", "layers": [1], "pooler": "task"})
    own = adapter_at(model, "pooler")
    dense = tiny("bert").pooler.dense
    with torch.no_grad():
        weight, bias = dense.weight + own.weight[route.task], dense.bias + own.bias[route.task]
        expected = torch.tanh(torch.einsum("rod,rd->ro", weight, output.hidden[:, 0]) + bias)
    torch.testing.assert_close(output.pooled, expected, **NEAR)
