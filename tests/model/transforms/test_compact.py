"""A compacted model is the gated one, smaller."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file

import weft
from tests.support.gated import GATED, gated, shut
from tests.support.more import examples
from tests.support.tiny import FAMILIES, TASKS, batch, build, scramble, tiny
from tests.support.tiny_run import save_encoder
from weft.adapters.gate import OPEN, SHUT
from weft.errors import WeftError
from weft.model.accounting.sparsity import in_words, sparsity
from weft.training.optim.l0 import gates_of


def assert_same(one, other, inputs):
    with torch.no_grad():
        first, second = one.run(**inputs), other.run(**inputs)
    mask = inputs["attention_mask"].bool()
    torch.testing.assert_close(first.hidden[mask], second.hidden[mask], atol=2e-5, rtol=1e-4)
    for a, b in zip(first.logits, second.logits, strict=True):
        torch.testing.assert_close(a, b, atol=2e-5, rtol=1e-4)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("method", GATED)
def test_compacted_equals_gated(method, family):
    model = gated(method, family)
    small = model.compact()
    assert not gates_of(small)
    assert sum(p.numel() for p in small.adapters.parameters()) < sum(
        p.numel() for p in model.adapters.parameters()
    )
    assert_same(small, model, batch(model))
    for task in TASKS:
        inputs = {k: v[:3] for k, v in batch(model).items() if k != "task"}
        with torch.no_grad():
            found = small.merge(task.name)(**inputs).last_hidden_state
            expected = model.merge(task.name)(**inputs).last_hidden_state
        torch.testing.assert_close(found, expected, atol=2e-5, rtol=1e-4)


@settings(max_examples=examples(15), deadline=None)
@given(st.sampled_from(sorted(GATED)), st.integers(0, 1000), st.floats(0, 1.1))
def test_whatever_is_shut(method, seed, share):
    model = gated(method, seed=seed, share=share)
    small = model.compact()
    assert_same(small, model, batch(model, seed=seed))
    assert sparsity(small) == sparsity(model)  # tasks with gates of their own too: padding is not counted


def test_gates_in_between_are_multiplied_in():
    model = scramble(build("bert", GATED["morris"]))
    with torch.no_grad():
        for gate in gates_of(model):
            gate.alpha.copy_(torch.linspace(-1, 1, gate.alpha.numel()).view_as(gate.alpha))
            assert 0 < float(gate.values().mean()) < 1
    assert_same(model.compact(), model, batch(model))


def test_dead_sites_are_gone_and_ranks_are_in_the_method():
    model = gated("morris")
    small = model.compact()
    dead = [site.key for site, adapter in model.placements if not len(adapter.live()[0])]
    assert "0/query" in dead
    assert not any(s.key == "0/query" and hasattr(a, "C") for s, a in small.placements)
    assert small.method.rank_pattern["0/query"] == 0
    assert small.method.rank == 6
    assert small.method.l0 is None
    for site, adapter in small.placements:
        pattern = getattr(small.method, adapter.setting)
        full = small.method.rank if adapter.setting == "rank_pattern" else small.method.bias_rank
        assert adapter.rank == pattern.get(site.key, full)


def test_the_compacted_bundle_is_smaller_and_loads_equal(tmp_path):
    save_encoder(tmp_path / "encoder")
    model = weft.Model(tmp_path / "encoder", TASKS, GATED["morris"]).eval()
    shut(scramble(model), 3, 0.7)
    model.save(tmp_path / "gated")
    model.compact().save(tmp_path / "small")
    size = {
        name: sum(f.stat().st_size for f in (tmp_path / name).rglob("*.safetensors"))
        for name in ("gated", "small")
    }
    assert size["small"] < 0.75 * size["gated"]
    assert_same(weft.load(tmp_path / "small").eval(), model, batch(model))
    with pytest.raises(WeftError, match="nothing to compact"):
        weft.load(tmp_path / "small").compact()


def test_a_task_with_fewer_components_has_a_smaller_file(tmp_path):
    """Slots of one parameter have one shape in memory; on disk a task has what it uses."""
    save_encoder(tmp_path / "encoder")
    model = weft.Model(tmp_path / "encoder", TASKS, {"use": "lora", "rank": 6, "l0": True}).eval()
    scramble(model)
    with torch.no_grad():
        for gate in gates_of(model):
            gate.alpha.fill_(OPEN)
            gate.alpha[1, 1:] = SHUT  # task b keeps one component a site
            gate.alpha[2] = SHUT  # task c none
    small = model.compact()
    small.save(tmp_path / "small")
    again = weft.load(tmp_path / "small").eval()
    assert_same(again, model, batch(model))
    sizes = {}
    for task in "abcd":
        tensors = load_file(tmp_path / "small" / "tasks" / f"{task}.safetensors")
        sizes[task] = {t.shape[0] for name, t in tensors.items() if name.endswith(".A")}
    assert sizes == {"a": {6}, "b": {1}, "c": {0}, "d": {6}}
    again.save(tmp_path / "twice")
    for file in (tmp_path / "small").rglob("*.safetensors"):
        assert file.read_bytes() == (tmp_path / "twice" / file.relative_to(tmp_path / "small")).read_bytes()


def test_the_account_by_layer():
    model = shut(build("bert", {"use": "morris", "rank": 4, "bias_rank": 2, "l0": True}), 5)
    told = sparsity(model)
    assert list(told["layers"]) == ["0", "1"]
    assert told["layers"]["0"]["weights"][1] == 2 * 4
    assert told["layers"]["1"]["biases"][1] == 6 * 2
    for what in ("weights", "biases"):
        assert told["all"][what] == tuple(sum(told["layers"][n][what][i] for n in ("0", "1")) for i in (0, 1))
    assert told["sites"]["0/query"]["weights"][0] == 0
    assert "of 16" in in_words(told)


def test_a_rank_for_a_site_that_is_not_there():
    with pytest.raises(WeftError, match=r"rank_pattern names the site '0/quary'; .*0/query"):
        weft.Model(tiny("bert"), TASKS, {"use": "lora", "rank_pattern": {"0/quary": 3}})


def test_parts_that_disagree_on_the_phases():
    from weft.methods import build_method
    from weft.methods.ranked import l0_of

    parts = [{"use": "lora", "l0": {"steps": 3}}, {"use": "morris", "l0": {"steps": 4}}]
    with pytest.raises(WeftError, match=r"different l0.steps, 3 and 4"):
        l0_of(build_method(parts))
