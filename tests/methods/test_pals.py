"""Where the functions of "BERT and PALs" enter, in every family, by hand; and what their settings mean."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

import weft
from tests.support.tiny import FAMILIES, TASKS, batch, build, scramble, tiny
from weft.core.route import Route
from weft.encoder.anatomy import sites_of
from weft.errors import WeftError
from weft.methods import build_method

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


def test_a_zero_start_learns_from_the_first_step():
    """V_D = 0 and still a gradient: gelu'(0) is 1/2."""
    for method in ("pals", "low_rank", "houlsby_parallel", "houlsby_pals", "houlsby"):
        size = {"size": 6} if method == "houlsby" else {"d_s": 6}
        model = build("bert", {"use": method, "zero_init": True, **size})
        inputs = batch(model)
        model.run(**inputs).hidden.square().sum().backward()
        ups = [a.function.project.up for _, a in model.placements if hasattr(a, "function")]
        assert ups
        for up in ups:
            assert up.weight.count_nonzero() == 0
            assert up.weight.grad.abs().max() > 0


def test_houlsby_starts_near_the_base():
    model = build("bert", {"use": "houlsby", "size": 8})
    inputs = batch(model)
    with torch.no_grad():
        found, base = model.run(**inputs).hidden, build("bert", "frozen").run(**inputs).hidden
    assert 0 < (found - base).abs().max() < 1e-3


def test_what_trains():
    def trained(spec):
        return {n for n, p in build("bert", spec).encoder.named_parameters() if p.requires_grad}

    everything = {n for n, _ in tiny("bert").named_parameters()}
    for method in ("pals", "low_rank", "houlsby_parallel", "houlsby_pals", "lhuc", "top_layer"):
        assert trained(method) == everything
        assert build_method(method).default_lr < build_method("lora").default_lr
        assert trained({"use": method, "train_encoder": "none"}) == set()
    assert trained("houlsby") == trained("task_norm") == set()
    norms = trained({"use": "pals", "train_encoder": "norms"})
    assert norms == {n for n in everything if "LayerNorm" in n}  # as the authors' --freeze leaves them
    # a task's own norm or pooler stands in the place of the encoder's
    assert trained({"use": "task_norm", "train_encoder": "all"}) == everything - norms
    assert trained({"use": "pals", "pooler": "task"}) == {n for n in everything if "pooler" not in n}


def test_a_pooler_a_task():
    model, output, route, *_ = woven("bert", {"use": "lhuc", "layers": [1], "pooler": "task"})
    own = adapter_at(model, "pooler")
    dense = tiny("bert").pooler.dense
    with torch.no_grad():
        weight, bias = dense.weight + own.weight[route.task], dense.bias + own.bias[route.task]
        expected = torch.tanh(torch.einsum("rod,rd->ro", weight, output.hidden[:, 0]) + bias)
    torch.testing.assert_close(output.pooled, expected, **NEAR)


def test_a_pooler_a_task_needs_a_pooler_that_is_read():
    with pytest.raises(WeftError, match="site 'pooler' does not exist"):
        build("distilbert", {"use": "pals", "d_s": 6, "pooler": "task"})
    with pytest.raises(WeftError, match="heads read 'mean'"):
        build("bert", {"use": "pals", "d_s": 6, "pooler": "task"}, pool="mean")


def test_a_copy_that_two_parts_ask_for_is_there_once():
    both = [
        {"use": "pals", "d_s": 6, "layers": 1, "pooler": "task"},
        {"use": "low_rank", "d_s": 5, "layers": 0, "pooler": "task"},
    ]
    model = build("bert", both)
    assert [site.kind for site, _ in model.placements] == ["ffn_delta", "pooler", "ffn_delta"]
    norms = [site.key for site, a in build("bert", [{"use": "houlsby", "size": 4}, "task_norm"]).placements]
    assert len(norms) == len(set(norms))


def test_parts_of_a_composition_start_apart():
    for both in (["pals", "pals_lhuc"], ["top_attention", "top_ffn"], ["pals", "pals"]):
        size = {"d_s": 12}
        model = build("bert", [{"use": name, **size} for name in both])
        ups = {id(m): m.up.weight for m in model.adapters.modules() if hasattr(m, "up")}
        one, other = ups.values()
        assert not torch.equal(one, other)


def test_only_the_norms_of_the_chosen_layers_are_a_tasks_own():
    model = build("bert", {"use": "houlsby", "size": 4, "layers": "top half"})
    assert {site.key for site, _ in model.placements} == {
        "1/attention_delta",
        "1/ffn_delta",
        "1/norm_1",
        "1/norm_2",
    }


def test_dropout_is_where_the_authors_have_it():
    """On the attention's weights; on top also on each layer's result; nowhere else in what tasks own."""
    x = torch.randn(3, 7, 32)
    for spec, drops in (
        ({"use": "pals", "d_s": 12}, True),
        ({"use": "pals", "d_s": 12, "attention_dropout": 0.0}, False),
        ({"use": "pals", "d_s": 12, "inside": "ffn"}, False),
        ({"use": "low_rank", "d_s": 5}, False),
        ({"use": "houlsby", "size": 5}, False),
        ({"use": "houlsby_parallel", "d_s": 5}, False),
        ({"use": "top_attention", "d_s": 12}, True),
        ({"use": "top_attention", "d_s": 12, "attention_dropout": 0.0}, True),
        ({"use": "top_attention", "d_s": 12, "attention_dropout": 0.0, "dropout": 0.0}, False),
        ({"use": "top_ffn", "d_s": 12, "dropout": 0.0}, False),
        ({"use": "top_ffn", "d_s": 12}, True),
        ({"use": "top_layer"}, True),
        ({"use": "lhuc"}, False),
    ):
        model = scramble(build("bert", spec)).train()
        route = Route(torch.tensor([0, 1, 2]), attention_input=x, ffn_input=x)
        adapter = model.placements[0][1]
        with torch.no_grad():
            assert torch.equal(adapter(x, route), adapter(x, route)) is not drops, spec


def test_any_set_of_layers_and_methods_by_layer():
    model = weft.Model("random:bert-base", TASKS, {"use": "pals", "layers": "top half"}, device="meta")
    assert [s.layer for s, _ in model.placements] == [6, 7, 8, 9, 10, 11]
    model = weft.Model("random:bert-base", TASKS, {"use": "pals", "layers": "bottom half"}, device="meta")
    assert [s.layer for s, _ in model.placements] == [0, 1, 2, 3, 4, 5]
    both = [{"use": "pals", "layers": "9-11"}, {"use": "low_rank", "layers": "0,2"}]
    model = weft.Model("random:bert-base", TASKS, both, device="meta")
    assert [(s.layer, type(a.function.inside).__name__) for s, a in model.placements] == [
        (9, "StackedAttention"),
        (10, "StackedAttention"),
        (11, "StackedAttention"),
        (0, "NoneType"),
        (2, "NoneType"),
    ]


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"use": "pals", "d_s": 10}, "heads: 6 heads cannot share d_s 10; expected a divisor of 10"),
        ({"use": "houlsby_pals", "heads": 7}, "heads: 7 heads cannot share d_s 156"),
        ({"use": "top_attention", "heads": 5}, "heads: 5 heads cannot share d_s 204"),
        ({"use": "pals", "share": "all"}, "share: "),
        ({"use": "pals", "connection": "series"}, "connection: .*'parallel' or 'serial'; found 'series'"),
        ({"use": "pals", "d_s": 0}, "d_s: .*greater than 0; found 0"),
        ({"use": "pals", "pooler": "own"}, "pooler: .*'shared' or 'task'; found 'own'"),
        ({"use": "low_rank", "activation": "relu"}, "activation: .*'gelu' or 'identity'; found 'relu'"),
        ({"use": "houlsby", "size": 0}, "size: .*found 0"),
        ({"use": "top_ffn", "hidden_layers": 3}, "hidden_layers: .*found 3"),
        ({"use": "top_attention", "zero_init": True}, "zero_init: no such setting"),
        ([{"use": "houlsby", "size": 4}, {"use": "task_norm", "share": "all"}], "share it differently"),
        ({"use": "lhuc", "sites": "query"}, "LhucAdapter cannot sit at"),
    ],
)
def test_wrong_settings_are_told(spec, message):
    with pytest.raises(WeftError, match=message):
        build("bert", spec)


def test_heads_may_be_any_divisor_and_do_not_matter_for_ffn():
    for heads in (1, 2, 3, 4, 6, 12):
        model = build("bert", {"use": "pals", "d_s": 12, "heads": heads})
        with torch.no_grad():
            seen = model.run(**batch(model), attention=True).attention
        assert {name: p.size(1) for name, p in seen.items()} == {"0/ffn_delta": heads, "1/ffn_delta": heads}
    model = build("bert", {"use": "pals", "d_s": 7, "inside": "ffn"})
    with torch.no_grad():
        assert model.run(**batch(model), attention=True).attention == {}
