"""Similarities of tasks: whole models against their merged encoders and numpy."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch

import weft
from tests.support.similarities import assert_same, by_numpy
from tests.support.tiny import TASKS, build, scramble, tiny
from weft.analysis.similarity import PARTS, methods_with_similarity, similarity
from weft.errors import WeftError
from weft.methods import METHODS

METHODS_HERE = {
    "lora": {"use": "lora", "rank": 2},
    "morris": {"use": "morris", "rank": 3, "bias_rank": 2, "biases": "all"},
    "tucker": {"use": "morris", "rank": 3, "task_rank": 2, "core": "tucker"},
    "gated": {"use": "morris", "rank": 3, "l0": True},
    "bitfit": "bitfit",
    "task_norm": "task_norm",
    "several": ["lora", {"use": "lora", "rank": 2}, "bitfit", {"use": "morris", "rank": 3}],
    "groups": {"use": "lora", "rank": 2, "share": {"pair": ["a", "c"]}},
}


@pytest.mark.parametrize("family", ["bert", "modernbert"])
@pytest.mark.parametrize("method", METHODS_HERE)
def test_models_against_their_merged_encoders(method, family):
    """ΔW as a merged encoder has it, every site and part; several updates of one weight are summed."""
    model = scramble(build(family, METHODS_HERE[method]))
    found = similarity(model)
    assert found.tasks == ("a", "b", "c", "d")
    base = tiny(family)
    merged = [model.merge(name) for name in found.tasks]
    seen = set()
    for one in found.sites:
        seen.add(one.site.key)
        index, parts = one.site.part
        for part in PARTS:
            if one.of(part) is None:
                continue
            own = getattr(base.get_submodule(one.site.path), part)
            deltas = []
            for encoder in merged:
                now = getattr(encoder.get_submodule(one.site.path), part)
                then = torch.zeros_like(now) if own is None else own
                delta = (now.double() - then.double()).chunk(parts)[index]
                deltas.append(delta.flatten().detach().numpy())
            assert_same(one.of(part), by_numpy(np.stack(deltas)), atol=1e-4)
    assert seen == {site.key for site, _ in model.placements}


def test_several_updates_of_one_weight_are_summed_with_their_cross_terms():
    model = scramble(build("bert", METHODS_HERE["several"]))
    found = {one.site.key: one for one in similarity(model).sites}
    for key in ("0/query", "1/value"):
        sums = dict.fromkeys(PARTS, 0)
        for site, adapter in model.placements:
            if site.key != key:
                continue
            exact = copy.deepcopy(adapter).double()
            for index, part in enumerate(PARTS):
                if exact.weight_delta(0)[index] is not None:
                    updates = [exact.weight_delta(t)[index].detach().flatten().numpy() for t in range(4)]
                    sums[part] = sums[part] + np.stack(updates)
        for part in PARTS:
            assert_same(found[key].of(part), by_numpy(sums[part]))


def test_nothing_of_the_model_changes():
    model = scramble(build("bert", "morris"))
    before = {name: value.clone() for name, value in model.state_dict().items()}
    similarity(model)
    after = model.state_dict()
    assert all(torch.equal(after[name], value) for name, value in before.items())
    assert all(p.dtype == torch.float32 for p in model.parameters())


def test_a_fresh_model_has_no_similarity_defined():
    found = similarity(build("bert", "morris"))
    assert found.idle == ["a", "b", "c", "d"]
    for part in PARTS:
        assert np.isnan(found.average(part)).all()


def test_tasks_that_share_an_update_are_equal():
    found = similarity(scramble(build("bert", METHODS_HERE["groups"])))
    assert found.notes == ()
    average = found.average("weight")
    assert average[0, 2] == pytest.approx(1, abs=1e-12)
    assert abs(average[0, 1]) < 0.9
    found = similarity(scramble(build("bert", "lora_bitfit_mtl")))
    assert [note.split(",")[0] for note in found.notes] == [
        "all tasks share one update of the weights",
        "all tasks share one update of the biases",
    ]
    assert_same(found.average("weight"), np.ones((4, 4)), atol=1e-12)
    found = similarity(scramble(build("bert", [{"use": "lora", "share": "all"}, "bitfit"])))
    assert len(found.notes) == 1
    assert "weights" in found.notes[0]


def test_what_is_not_compared_is_said():
    found = similarity(scramble(build("bert", ["lora", {"use": "pals", "d_s": 8, "heads": 2}])))
    assert found.kinds == ["query", "value"]
    assert any("ffn_delta" in note for note in found.notes)
    found = similarity(scramble(build("bert", {"use": "lora", "train_encoder": "norms"})))
    assert any("that all tasks share" in note for note in found.notes)


@pytest.mark.parametrize("name", METHODS)
def test_which_methods_have_a_similarity(name):
    model = scramble(build("bert", name))
    if name in methods_with_similarity():
        assert "not compared" not in " ".join(similarity(model).notes)
    elif any(adapter.weight_delta(0) is not None for _, adapter in model.placements):
        assert "not compared" in " ".join(similarity(model).notes)  # houlsby: of its adapters the norms alone
    else:
        with pytest.raises(WeftError) as wrong:
            similarity(model)
        assert f"method, {name}," in str(wrong.value)
        assert ", ".join(methods_with_similarity()) in str(wrong.value)


def test_separate_is_refused_with_the_reason_and_one_task_too():
    with pytest.raises(WeftError, match=r"one encoder per task.*before training is not part of it"):
        similarity(build("bert", "separate"))
    with pytest.raises(WeftError, match="one task, a; a similarity needs at least two"):
        similarity(build("bert", "lora", tasks=TASKS[:1]))


def test_in_order_moves_rows_and_columns():
    found = similarity(scramble(build("bert", METHODS_HERE["morris"])))
    order = ["c", "a", "d", "b"]
    moved = found.in_order(order)
    assert moved.tasks == tuple(order)
    places = [found.tasks.index(name) for name in order]
    assert_same(moved.average("weight"), found.average("weight")[np.ix_(places, places)])
    assert moved.average("bias")[0, 3] == found.average("bias")[2, 1]


def test_the_adapters_may_be_of_less_precision():
    model = scramble(weft.Model(tiny("bert"), TASKS, "lora"))
    exact = similarity(model).average("weight")
    for adapter in model.adapters.parameters():
        adapter.data = adapter.data.to(torch.bfloat16)
    assert_same(similarity(model).average("weight"), exact, atol=0.02)
