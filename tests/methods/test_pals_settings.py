"""What the settings of the methods of "BERT and PALs" mean."""

from __future__ import annotations

import pytest
import torch

import weft
from tests.support.tiny import TASKS, batch, build, scramble, tiny
from weft.core.route import Route
from weft.errors import WeftError
from weft.methods import build_method


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
        ([{"use": "houlsby", "size": 4}, {"use": "task_norm", "share": "all"}], "share them differently"),
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
