"""`ca_mtl`: its variants, what trains, what it costs, and what its attention does in each family."""

from __future__ import annotations

import json

import pytest
import torch

import weft
from tests.support.golden import golden
from tests.support.tiny import FAMILIES, TASKS, batch, build, labels, tiny
from weft.adapters.alignment import FilmAlignment, MatrixAlignment
from weft.adapters.conditional_bottleneck import FilmBottleneck, ModulatedBottleneck
from weft.adapters.film import Film
from weft.errors import WeftError
from weft.methods import CaMtl
from weft.model.ownership import owned

WITHOUT = {"attention": "none", "alignment": "none", "norm": "none", "bottleneck": "none"}


def test_variants_are_the_defaults_of_the_parts():
    code, paper = CaMtl(), CaMtl(variant="paper")
    forms = ("attention_start", "attention_film", "alignment", "norm", "bottleneck")
    assert [getattr(code, f) for f in forms] == ["zeros", "vector", "film", "code", "code"]
    assert [getattr(paper, f) for f in forms] == ["random", "matrix", "matrix", "paper", "paper"]
    mixed = CaMtl(variant="paper", norm="code", alignment=False, attention_start="zeros")
    assert (mixed.norm, mixed.alignment, mixed.attention_start) == ("code", "none", "zeros")
    assert (mixed.attention_film, mixed.bottleneck) == ("matrix", "paper")
    for method in (code, paper, mixed):
        said = method.settings()
        assert said.pop("use") == "ca_mtl"
        assert CaMtl(**said) == method


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"blocks": 3, "attention": "full"}, "with attention 'full' there are none"),
        ({"blocks": 9, "length": 8}, "more than the 8 places"),
        ({"norm": "eq. 3.3"}, "norm: expected 'code', 'paper' or 'none'"),
        ({"variant": "thesis"}, "variant: expected 'code' or 'paper'"),
        ({"aligment": "film"}, "did you mean 'alignment'"),
        ({"length": 1}, "length: expected greater than or equal to 2"),
        ({"reinit_top": True, "train_encoder": "none"}, "the top block must train"),
    ],
)
def test_wrong_settings(given, message):
    with pytest.raises(WeftError, match=message):
        CaMtl(**given)


def test_number_and_size_of_blocks():
    """N = max(1, d // L) and b = ⌈L/N⌉ unless N is given."""

    def block(length, **given):
        model = build("bert", {"use": "ca_mtl", "length": length, **given})
        return model.adapters["0/scores"][0].block

    assert [block(n) for n in (4, 8, 12, 16, 32, 33)] == [1, 2, 6, 8, 32, 33]  # d = 32
    assert block(12, blocks=5) == 3
    assert block(12, attention="full") == 12


FORMS = {
    "attention_start": ("zeros", "random"),
    "attention_film": ("vector", "matrix"),
    "alignment": ("film", "matrix"),
    "norm": ("code", "paper"),
    "bottleneck": ("code", "paper"),
}


@pytest.mark.parametrize("size", ["base", "large"])
@pytest.mark.parametrize("alone", [None, *FORMS])
def test_each_form_is_what_is_built(alone, size):
    """`variant: paper` sets every form, and each is an option alone."""
    given = {"variant": "paper"} if alone is None else {alone: FORMS[alone][1]}
    model = build("bert", {"use": "ca_mtl", "length": 24, "blocks": 3, "size": size, **given})
    paper = {key for key in FORMS if alone in (None, key)}

    def named(key):
        return "paper" if key in paper else "code"

    scores, norm = model.adapters["1/scores"][0], model.adapters["1/norm_2"][0]
    assert bool(scores.get_parameter("a").any()) is ("attention_start" in paper)
    numbers = scores.film.generate.get_parameter("bias").size(1)
    assert numbers == 2 * (64 if "attention_film" in paper else 8)
    kind = MatrixAlignment if "alignment" in paper else FilmAlignment
    assert type(model.adapters["embeddings"][0]) is kind
    assert norm.form == named("norm")
    kind = ModulatedBottleneck if "bottleneck" in paper else FilmBottleneck
    if size == "base":
        assert type(model.adapters["1/block"][0].bottleneck) is kind
        assert model.adapters["1/block"][0].norm.form == named("norm")
    else:
        assert [type(b) for b in model.adapters["top"][0].bottlenecks] == [kind, kind]


def test_the_bottlenecks_own_norm_without_the_others():
    """It is part of the bottleneck, and then has the bottleneck's form."""
    for form in ("code", "paper"):
        model = build("bert", {"use": "ca_mtl", **WITHOUT, "bottleneck": form})
        assert model.adapters["1/block"][0].norm.form == form


@pytest.mark.parametrize("size", ["base", "large"])
@pytest.mark.parametrize("variant", ["code", "paper"])
def test_zero_init_reaches_every_scale_and_shift(variant, size):
    model = build(
        "bert", {"use": "ca_mtl", "length": 24, "zero_init": True, "variant": variant, "size": size}
    )
    films = {n: m for n, m in model.adapters.named_modules() if isinstance(m, Film)}
    assert len(films) >= 6
    assert not [n for n, m in films.items() if any(p.any() for p in m.parameters())]


@pytest.mark.parametrize("family", FAMILIES)
def test_a_matrix_that_is_not_zero_changes_the_output(family):
    model = build(family, {"use": "ca_mtl", **WITHOUT, "attention": "block", "length": 24, "blocks": 3})
    inputs = batch(model)
    adapters = [a for s, a in model.placements if s.kind == "scores"]
    assert len(adapters) == model.num_layers
    with torch.no_grad():
        for adapter in adapters:
            for parameter in adapter.film.parameters():
                parameter.zero_()
        bare = tiny(family)(inputs["input_ids"], attention_mask=inputs["attention_mask"]).last_hidden_state
        real = inputs["attention_mask"].bool()
        torch.testing.assert_close(model.run(**inputs).hidden[real], bare[real], rtol=1e-4, atol=1e-4)
        adapters[0].get_parameter("a").fill_(1.0)
        adapters[0].get_parameter("a")[..., 0] = -3.0
        assert not torch.allclose(model.run(**inputs).hidden[real], bare[real], atol=1e-3)


def test_in_a_local_layer_of_modernbert_the_matrix_acts_inside_the_window():
    """Token 0 and token 9 lie in one block, and 8 // 2 tokens is as far as a local layer looks."""
    model = build("modernbert", {"use": "ca_mtl", **WITHOUT, "attention": "full", "length": 12})
    assert model.encoder.config.layer_types[1] == "sliding_attention"
    ids = batch(model)["input_ids"][:1]
    with torch.no_grad():
        for _, adapter in model.placements:
            for parameter in adapter.film.parameters():
                parameter.zero_()
        local = model.adapters["1/scores"][0].get_parameter("a")
        before = model.run(ids, task=torch.zeros(1, dtype=torch.long)).hidden
        local[0, 0, 9] = 50.0
        assert torch.equal(model.run(ids, task=torch.zeros(1, dtype=torch.long)).hidden, before)
        local[0, 0, 3] = 50.0
        assert not torch.allclose(model.run(ids, task=torch.zeros(1, dtype=torch.long)).hidden, before)


@pytest.mark.parametrize("family", ["bert", "modernbert"])
def test_frozen_blocks_below_the_lowest_part_cost_no_backward(family):
    """Without alignment and attention below, nothing under the trained half has a gradient to pass."""
    top = {"use": "ca_mtl", "alignment": "none", "attention_layers": "top half", "length": 24}
    model = build(family, top)
    lowest = model.num_layers - model.num_layers // 2
    output = model.run(**batch(model), layers=True)
    assert [x.requires_grad for x in output.layers[: lowest + 1]] == [False] * (lowest + 1)
    assert all(x.requires_grad for x in output.layers[lowest + 1 :])
    # conditional attention or alignment below need the way down
    everywhere = build(family, {"use": "ca_mtl", "length": 24}).run(**batch(model), layers=True)
    assert all(x.requires_grad for x in everywhere.layers)


@pytest.mark.parametrize(
    ("train_encoder", "frozen"),
    [
        ("layers top half", {0, 1}),
        ("layers not bottom 25%", {0}),
        ("layers not bottom 50%", {0, 1}),
        ("layers not 0,2", {0, 2}),
        ("all", set()),
    ],
)
def test_any_set_of_layers_may_be_frozen(train_encoder, frozen):
    from transformers import BertConfig, BertModel

    sizes = {"hidden_size": 12, "num_hidden_layers": 4, "num_attention_heads": 2, "intermediate_size": 8}
    bert = BertModel(BertConfig(vocab_size=20, max_position_embeddings=16, **sizes))
    model = weft.Model(bert, TASKS, {"use": "ca_mtl", "length": 12, "train_encoder": train_encoder})
    for name, parameter in model.encoder.named_parameters():
        place = name.split(".")
        if place[1] == "layer":
            assert parameter.requires_grad is (int(place[2]) not in frozen), name
        elif place[0] == "embeddings":
            assert parameter.requires_grad is (not frozen), name
    assert all(p.requires_grad for p in model.adapters.parameters()), "conditional parts always train"


def test_the_top_block_may_start_anew(tmp_path):
    kept, fresh = (build("bert", {"use": "ca_mtl", "length": 24, "reinit_top": x}) for x in (False, True))
    bare = tiny("bert").state_dict()
    for name, value in fresh.encoder.state_dict().items():
        assert torch.equal(kept.encoder.state_dict()[name], bare[name])
        assert torch.equal(value, bare[name]) is (not name.startswith("encoder.layer.1.")), name
    top = fresh.encoder.encoder.layer[1]
    assert 0.017 < float(top.intermediate.dense.weight.detach().std()) < 0.023
    assert not top.intermediate.dense.bias.any()
    assert torch.equal(top.output.LayerNorm.weight, torch.ones(32))
    again = build("bert", {"use": "ca_mtl", "length": 24, "reinit_top": True})
    assert torch.equal(again.encoder.encoder.layer[1].output.dense.weight, top.output.dense.weight)
    inputs = batch(fresh)
    fresh.save(tmp_path / "b")
    with torch.no_grad():
        assert torch.equal(weft.load(tmp_path / "b").eval().run(**inputs).hidden, fresh.run(**inputs).hidden)
    encoder = tiny("bert")
    with pytest.raises(WeftError, match=r"layer 1 is reinitialized but frozen"):
        weft.Model(encoder, TASKS, CaMtl(length=24, reinit_top=True, train_encoder="layers 0"))
    assert all(p.requires_grad for p in encoder.parameters()), "a refused encoder stays as it was"


def test_rows_longer_than_its_length_are_told():
    with pytest.raises(WeftError, match=r"max_length 40 is more than method 'ca_mtl' was built for"):
        build("bert", {"use": "ca_mtl", "length": 24}, max_length=40)
    model = build("bert", {"use": "ca_mtl", "length": 24})
    assert model.max_length == 24
    with pytest.raises(WeftError, match=r"rows of 25 tokens; the model takes 24"):
        model.run(torch.ones(1, 25, dtype=torch.long), task=torch.zeros(1, dtype=torch.long))
    assert build("bert", {"use": "ca_mtl", "attention": "none", "length": 24}).max_length == 64


def test_a_task_owns_its_vector_and_its_head():
    model = build("bert", {"use": "ca_mtl", "length": 24})
    own = {(i.part, tuple(i.data.shape)) for i in owned(model) if i.owner == "task:a"}
    assert own == {("adapters", (32,)), ("heads", (2, 32)), ("heads", (2,))}
    task = build("bert", {"use": "ca_mtl", **WITHOUT, "alignment": "task"})
    assert {tuple(i.data.shape) for i in owned(task) if i.part == "adapters"} == {(32, 32)}
    assert CaMtl().embeds
    assert not CaMtl(**{**WITHOUT, "alignment": "task"}).embeds


def test_no_loop_over_tasks():
    """However many tasks a batch mixes, the forward runs the same operations."""
    from torch.utils._python_dispatch import TorchDispatchMode

    class Count(TorchDispatchMode):
        calls = 0

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            Count.calls += 1
            return func(*args, **(kwargs or {}))

    tasks = [weft.Task(f"t{i}", labels=("no", "yes")) for i in range(8)]
    model = build("bert", {"use": "ca_mtl", "length": 24}, tasks=tasks)
    inputs = batch(model)
    counts = []
    for present in (2, 8):
        Count.calls = 0
        with torch.no_grad(), Count():
            model.run(**{**inputs, "task": torch.arange(8) % present})
        counts.append(Count.calls)
    assert counts[0] == counts[1] > 0


def test_starts_as_the_authors_code_does():
    told = json.loads((golden("ca_mtl") / "init_stats_base.json").read_text())
    from transformers import BertConfig, BertModel

    from weft.interop.ca_mtl.keys import places_of_adapters

    bert = BertModel(BertConfig(vocab_size=100, hidden_size=48, num_hidden_layers=4, num_attention_heads=4))
    model = weft.Model(bert, [weft.Task(n, size=2) for n in "abcd"], {"use": "ca_mtl", "length": 16})
    compared = 0
    for key, (_, (value,)) in places_of_adapters(model).of.items():
        theirs = told["init"].get(key.removeprefix("bert."))
        if theirs is None:
            continue
        compared += 1
        if theirs["std"] == 0:
            assert float(value.abs().max()) == pytest.approx(theirs["absmax"]), key
        else:
            assert float(value.std()) == pytest.approx(theirs["std"], rel=0.3), key
    assert compared > 20


def test_what_trains_when_the_authors_freeze_layers():
    """Their flag, but for a slip: γ and β of M in frozen layers stay frozen at random there, not here."""
    from safetensors.torch import load_file

    from weft.interop import load_ca_mtl
    from weft.interop.ca_mtl.keys import places_of_adapters, places_of_encoder

    folder = golden("ca_mtl")
    told = json.loads((folder / "model_base.json").read_text())
    tensors = load_file(folder / "model_base.safetensors")
    state = {k.removeprefix("param."): v for k, v in tensors.items() if k.startswith("param.")}
    model = load_ca_mtl(state, told["config"], told["tasks"], train_encoder="layers not 0-1")
    memory = {p.data_ptr(): p.requires_grad for p in model.parameters()}
    places = places_of_encoder(model.encoder, 4, renamed_top=True).of | places_of_adapters(model).of
    theirs = told["requires_grad_with_freeze_0_1"]
    differ = [k for k, (_, (v,)) in places.items() if memory[v.data_ptr()] is not theirs[k]]
    slips = [f"bert.encoder.layer.{n}.attention.self.cond_block_diag_attn.gb_weights" for n in (0, 1)]
    assert sorted(differ) == sorted(f"{name}.{part}" for name in slips for part in ("weight", "bias"))


def test_it_trains_all_of_its_parts():
    """One step moves every tensor of the parts; A of M too, whose start is zero."""
    model = build("bert", {"use": "ca_mtl", "length": 24}).train()
    inputs = batch(model)
    model.loss(model.run(**inputs), labels(model, inputs["task"])).backward()
    still = [n for n, p in model.adapters.named_parameters() if not p.grad.any()]
    assert still == []
