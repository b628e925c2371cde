from __future__ import annotations

import pytest
import torch

import weft
from tests.support.tiny import TASKS, batch, build, tiny
from weft.errors import WeftError
from weft.methods import METHODS, Method, build_method


def test_names_settings_objects_and_lists_build_methods():
    assert (
        build_method("lora") == build_method({"use": "lora"}) == build_method(["lora"]) == weft.methods.Lora()
    )
    both = build_method(["lora", {"use": "bitfit", "biases": "dense"}])
    assert [m.name for m in both.parts] == ["lora", "bitfit"]
    assert build_method(both.settings()) == both
    for name in METHODS:
        assert build_method(build_method(name).settings()) == build_method(name)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("lorra", "method 'lorra' does not exist; did you mean 'lora'"),
        ({"rank": 4}, "lacks the key 'use'"),
        ({"use": "lora", "rnak": 4}, "rnak: no such setting; did you mean 'rank'"),
        ({"use": "lora", "rank": 0}, r"rank: .*greater than 0; found 0"),
        ({"use": "lora", "rank": "eight"}, r"rank: .*; found 'eight'"),
        ({"use": "lora", "dropout": 1.0}, r"dropout: .*less than 1"),
        ({"use": "lora", "sites": "qury"}, "sites: site 'qury' does not exist; did you mean 'query'"),
        ({"use": "lora", "share": "tasks"}, r"share: "),
        ({"use": "lora", "sites": []}, "sites: expected one site or more, each once"),
        ({"use": "lora", "sites": "query, query"}, "sites: expected one site or more, each once"),
        (
            {"use": "lora", "train_encoder": "some"},
            "train_encoder: expected none, all, biases, norms, or l",
        ),
        ({"use": "bitfit", "biases": "some"}, r"biases: .*'all', 'blocks' or 'dense'"),
        ([], "an empty list"),
        (["separate", "lora"], "'separate' gives each task a whole encoder and cannot be combined"),
        (7, "expected a name, settings with 'use', or a list of these; found 7"),
    ],
)
def test_wrong_methods_are_answered(spec, message):
    with pytest.raises(WeftError, match=message):
        build_method(spec)


def test_all_wrong_settings_are_told_at_once():
    with pytest.raises(WeftError) as wrong:
        build_method({"use": "lora", "rank": 0, "alpha": -1, "nonsense": 1})
    assert [line.split(":")[0].strip() for line in str(wrong.value).split("\n")[1:]] == [
        "rank",
        "alpha",
        "nonsense",
    ]


@pytest.mark.parametrize(
    ("method", "message"),
    [
        ({"use": "lora", "sites": "norm_1"}, "LoraAdapter cannot sit at '0/norm_1'"),
        ({"use": "lora", "sites": "final_norm"}, "'final_norm' does not exist anywhere of this bert"),
        ({"use": "lora", "layers": "2"}, "whose layers are 0-1"),
        ({"use": "lora", "share": {"g": ["zz"]}}, "group 'g' names the task 'zz'"),
        ({"use": "lora", "share": {"g": []}}, "group 'g' has no task"),
        ({"use": "full", "train_encoder": "layers 9"}, "whose layers are 0-1"),
    ],
)
def test_settings_that_this_encoder_cannot_keep(method, message):
    with pytest.raises(WeftError, match=message):
        build("bert", method)


def test_train_encoder():
    def trained(spec, family="bert"):
        return {n for n, p in build(family, spec).encoder.named_parameters() if p.requires_grad}

    assert trained("frozen") == trained("lora") == trained("bitfit") == set()
    assert trained("full") == {n for n, _ in tiny("bert").named_parameters()}
    biases = trained({"use": "lora", "train_encoder": "biases"})
    assert biases == {n for n, _ in tiny("bert").named_parameters() if n.endswith("bias")}
    top = trained({"use": "frozen", "train_encoder": "layers 1"})
    assert {n.split(".")[0] if "layer" not in n else n[:15] for n in top} == {"encoder.layer.1", "pooler"}
    union = trained(
        [{"use": "lora", "train_encoder": "biases"}, {"use": "bitfit", "train_encoder": "layers 1"}]
    )
    assert union == biases | top
    norm = trained({"use": "frozen", "train_encoder": "layers 2"}, "modernbert")
    assert {n.rsplit(".", 1)[0] for n in norm if "layers" not in n} == {"final_norm"}
    with pytest.raises(WeftError, match="has none; method bitfit adds its own"):
        trained({"use": "full", "train_encoder": "biases"}, "modernbert")


def test_bitfit_adds_vectors_where_the_base_has_no_bias():
    model = build("modernbert", {"use": "bitfit", "biases": "blocks"})
    assert not any(n.endswith("bias") for n, _ in model.encoder.named_parameters())
    found = {key.split("/")[1] for key in model.adapters}
    assert found == {"query", "key", "value", "attention_out", "ffn_in", "ffn_out", "norm_1", "norm_2"}
    assert "0/norm_1" not in model.adapters


def test_bitfit_trains_as_the_biases_themselves_would():
    """One shared set of vectors has the gradient of the encoder's own biases."""
    model = build("bert", {"use": "bitfit", "share": "all", "train_encoder": "biases"}, TASKS[:1])
    inputs = batch(model)
    model.run(**inputs).pooled.square().sum().backward()
    for site, adapter in model.placements:
        own = model.encoder.get_submodule(site.path).bias.grad
        torch.testing.assert_close(adapter.v.grad[0], own)


def test_methods_compose_as_the_sum_of_their_terms():
    inputs = batch(build("bert", "frozen"))
    with torch.no_grad():
        both = build("bert", ["lora", "bitfit"])
        for _, adapter in both.placements:
            for parameter in adapter.parameters():
                parameter.normal_(generator=torch.Generator().manual_seed(parameter.numel()))
        merged = both.merge("b")
        rows = inputs["task"] == 1
        found = merged(inputs["input_ids"][rows], attention_mask=inputs["attention_mask"][rows])
        expected = both.run(**inputs).hidden[rows]
    mask = inputs["attention_mask"][rows].bool()
    torch.testing.assert_close(found.last_hidden_state[mask], expected[mask], rtol=1e-4, atol=1e-5)


def test_twins_start_apart():
    """Equal starts would get equal gradients for ever: twice the parameters, half the rank."""
    model = build("bert", ["lora", {"use": "lora", "rank": 4}])
    first, second = model.adapters["0/query"]
    assert not torch.equal(first.A[0][:4], second.A[0])
    assert torch.equal(first.A, build("bert", "lora").adapters["0/query"][0].A)  # the first is as if alone


def test_nothing_is_woven_where_nothing_reads():
    model = weft.Model("minilm", TASKS, "bitfit")
    assert model.pool == "mean"
    assert "pooler" not in model.adapters
    with pytest.raises(WeftError, match=r"'pooler' does not exist anywhere .* nothing reads the pooler"):
        weft.Model("minilm", TASKS, {"use": "lora", "sites": "pooler"})
    assert "pooler" in build("bert", "bitfit").adapters


def test_merged_biases_survive_saving(tmp_path):
    from transformers import AutoModel

    for biases in ("all", "dense"):
        model = build("modernbert", {"use": "bitfit", "biases": biases})
        for _, adapter in model.placements:
            torch.nn.init.normal_(adapter.v)
        inputs = batch(model)
        plain = model.merge("a")
        plain.save_pretrained(tmp_path / biases)
        loaded = AutoModel.from_pretrained(tmp_path / biases).eval()
        rows = inputs["task"] == 0
        given = (inputs["input_ids"][rows], inputs["attention_mask"][rows])
        with torch.no_grad():
            expected = model.run(**inputs).hidden[rows][given[1].bool()]
            found = loaded(given[0], attention_mask=given[1]).last_hidden_state[given[1].bool()]
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


def test_a_refused_method_leaves_the_encoder_as_it_was():
    encoder = tiny("bert")
    with pytest.raises(WeftError):
        weft.Model(encoder, TASKS, {"use": "full", "train_encoder": "layers 9"})
    assert all(p.requires_grad for p in encoder.parameters())
    weft.Model(encoder, TASKS, "full")


def test_separate_tasks_may_have_any_name():
    names = ["type", "items", "train", "forward"]
    model = build("bert", "separate", [weft.Task(name, size=2) for name in names])
    assert model.run(torch.randint(5, 99, (4, 5)), task=torch.arange(4)).pooled.shape == (4, 32)


def test_separate_tasks_share_nothing():
    model = build("bert", "separate")
    stores = [{p.data_ptr() for p in body.parameters()} for body in model.encoder.values()]
    assert len(set().union(*stores)) == sum(map(len, stores))


def test_a_method_of_ones_own():
    class Mine(Method):
        name = "mine"

    METHODS.register("mine", Mine)
    try:
        assert build_method("mine") == Mine()
    finally:
        del METHODS._entries["mine"]


def test_lora_dropout_acts_in_training_alone():
    model = build("bert", {"use": "lora", "dropout": 0.5})
    for _, adapter in model.placements:
        torch.nn.init.normal_(adapter.B)
    inputs = batch(model)
    assert torch.equal(model.run(**inputs).hidden, model.run(**inputs).hidden)
    for adapter in model.adapters.values():
        adapter.train()
    assert not torch.equal(model.run(**inputs).hidden, model.run(**inputs).hidden)


def test_a_composition_in_a_composition_is_one():
    inner = weft.methods.Composed(methods=(weft.methods.Lora(), weft.methods.Bitfit()))
    outer = weft.methods.Composed(methods=(inner, weft.methods.Morris()))
    assert [part.name for part in outer.methods] == ["lora", "bitfit", "morris"]
