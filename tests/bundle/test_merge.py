"""Tasks trained apart, merged into one set of weights: what is merged, how exactly, and what is refused."""

from __future__ import annotations

import pytest
import torch
from safetensors.torch import load_file

import weft
from tests.support.apart import BOTH, LORA, A, B, C, logits
from tests.support.tiny import scramble, tiny
from weft.adapters.bias import BiasAdapter
from weft.bundle.merge import _of_rank, merge_bundles
from weft.bundle.merge_rules import RULES, Merge
from weft.errors import WeftError
from weft.model.ownership import owned

UPDATES = [LORA, BOTH, "bitfit", {"use": "morris", "rank": 2, "bias_rank": 1}]
ENCODERS = ["full", "separate", {"use": "full", "train_encoder": "layers 1"}]


@pytest.fixture
def make(encoder, tmp_path):
    """Write a bundle whose weights, those of a trained encoder too, are far from their start."""

    def made(name, tasks, method=LORA, encoder=encoder):
        seed = len(list(tmp_path.iterdir()))
        model = scramble(weft.Model(encoder, tasks, method), seed)
        draws = torch.Generator().manual_seed(seed)
        with torch.no_grad():
            for item in owned(model):
                if item.part == "encoder" and item.trains and not model.method.separate:
                    item.data.add_(torch.randn(item.data.shape, generator=draws) * 0.1)
        return model.save(tmp_path / name)

    return made


def deltas(model, task):
    """ΔW and Δb of a task at each site; several adapters of a site are added."""
    found: dict[tuple[str, int], torch.Tensor] = {}
    number = model.task_id(task)
    for site, adapter in model.placements:
        for part, value in enumerate(adapter.weight_delta(number)):
            if value is not None:
                found[site.key, part] = found.get((site.key, part), 0) + value.detach()
    return found


def encoder_of(model, task):
    """The weights of a task's encoder, by their names in the plain encoder."""
    prefix = f"encoder.task:{task}." if model.method.separate else "encoder."
    return {
        item.name.removeprefix(prefix): item.data
        for item in owned(model)
        if item.part == "encoder" and item.name.startswith(prefix)
    }


@pytest.mark.each_value
@pytest.mark.parametrize("method", [*UPDATES, *ENCODERS], ids=str)
@pytest.mark.parametrize("rule", ["task_arithmetic", "linear"])
def test_a_task_that_has_all_the_weight_answers_as_before(method, rule, make, tmp_path):
    bundles = [make("one", [A], method), make("two", [B], method)]
    done = merge_bundles(bundles, tmp_path / "out", Merge(rule, {"a": 1.0, "b": 0.0}))
    assert done.tasks == ("a", "b")
    merged = weft.load(tmp_path / "out")
    assert torch.allclose(logits(merged, "a"), logits(weft.load(bundles[0]), "a"), atol=1e-4)
    assert done.relative < 1e-5


@pytest.mark.each_value
@pytest.mark.parametrize("method", UPDATES, ids=str)
@pytest.mark.parametrize("rule", RULES)
def test_products_are_merged_and_not_their_factors(method, rule, make, tmp_path):
    bundles = [make("one", [A, B], method), make("two", [C], method)]
    merge = Merge(rule, {"b": 0.5}, scale=0.7, seed=3)
    done = merge_bundles(bundles, tmp_path / "out", merge, rank=32)
    merged = weft.load(tmp_path / "out")
    alone = {task.name: deltas(model, task.name) for model in map(weft.load, bundles) for task in model.tasks}
    sites = {site for of_task in alone.values() for site in of_task}
    for name in "abc":
        updates = deltas(merged, name)
        assert sites == {site for site, value in updates.items() if value.any() or site in sites}
        for site, part in sites:
            vectors = [of_task[site, part] for of_task in alone.values()]
            expected = merge(vectors, list(alone), f"{site} bias" if part else site)
            # a sum of two products of rank 2 is exact; entries that were dropped leave any rank below 32
            torch.testing.assert_close(updates[site, part], expected, atol=1e-4, rtol=1e-3)
    assert done.relative < 1e-4
    assert merged.method.share == "all"


def test_heads_stay_as_they_were(make, tmp_path):
    bundles = [make("one", [A], LORA), make("two", [B], LORA)]
    merge_bundles(bundles, tmp_path / "out", Merge("ties"))
    for bundle, name in zip(bundles, "ab", strict=True):
        before, after = (load_file(f / "tasks" / f"{name}.safetensors") for f in (bundle, tmp_path / "out"))
        assert after
        assert all(torch.equal(value, before[key]) for key, value in after.items())


@pytest.mark.each_value
@pytest.mark.parametrize("method", ENCODERS, ids=str)
@pytest.mark.parametrize("rule", RULES)
def test_encoders_are_merged_by_what_training_added(method, rule, make, encoder, tmp_path):
    bundles = [make("one", [A, B], method), make("two", [C], method)]
    merge = Merge(rule, {"c": 2.0}, scale=0.5)
    done = merge_bundles(bundles, tmp_path / "out", merge)
    assert done.method.name == "full"
    merged = encoder_of(weft.load(tmp_path / "out"), "a")
    base = encoder_of(weft.Model(encoder, [A], "frozen"), "a")
    loaded = [weft.load(bundle) for bundle in bundles]
    trained = {task.name: encoder_of(model, task.name) for model in loaded for task in model.tasks}
    moved = 0
    for name, start in base.items():
        vectors = [weights[name] - start for weights in trained.values()]
        expected = start + merge(vectors, "abc", f"encoder.{name}")
        if torch.equal(merged[name], start):  # a weight that does not train, such as an unused pooler
            continue
        moved += 1
        torch.testing.assert_close(merged[name], expected)
    assert moved >= 16


@pytest.mark.parametrize("rule", ["ties", "task_arithmetic"])
def test_a_smaller_rank_is_the_nearest_product_of_that_rank(rule, make, tmp_path):
    bundles = [make("one", [A], LORA), make("two", [B], {**LORA, "rank": 3})]
    exact = merge_bundles(bundles, tmp_path / "exact", Merge(rule), rank=32)
    small = merge_bundles(bundles, tmp_path / "small", Merge(rule), rank=1)
    assert small.method.rank == 1
    wanted, written = (deltas(weft.load(done.folder), "a") for done in (exact, small))
    errors = {site.site: site for site in small.errors}
    for (site, part), value in wanted.items():
        singular = torch.linalg.svdvals(value)
        assert errors[site].error == pytest.approx(singular[1:].norm().item(), rel=1e-3)
        assert (value - written[site, part]).norm().item() == pytest.approx(errors[site].error, rel=1e-3)
    assert 0 < small.relative < 1
    assert exact.relative < 1e-5


def test_by_default_the_rank_is_the_sum_of_the_ranks(make, tmp_path):
    bundles = [make("one", [A], LORA), make("two", [B], {**LORA, "rank": 3, "sites": "query"})]
    done = merge_bundles(bundles, tmp_path / "out", Merge("linear"))
    assert (done.method.rank, done.method.rank_pattern) == (5, {"0/value": 2, "1/value": 2})


def test_factors_of_equal_size():
    up, down = torch.randn(6, 4).double() * 100, torch.randn(4, 5).double()
    left, right = _of_rank(up, down, 2)
    torch.testing.assert_close(left.norm(dim=0), right.norm(dim=1))


def test_an_encoder_that_comes_along_and_one_that_was_passed(make, tmp_path):
    bundles = [make("one", [A], LORA, encoder=tiny("bert")), make("two", [B], LORA, encoder=tiny("bert"))]
    merge_bundles(bundles, tmp_path / "out", Merge("linear"))
    assert (tmp_path / "out" / "encoder").is_dir()
    whole = [
        make("three", [A], "full", encoder=tiny("bert")),
        make("four", [B], "full", encoder=tiny("bert")),
    ]
    with pytest.raises(WeftError, match="its weights before training are not in the bundle"):
        merge_bundles(whole, tmp_path / "full", Merge("linear"))
    plain = tiny("bert")
    merge_bundles(whole, tmp_path / "full", Merge("linear", {"b": 0.0}), encoder=plain)
    assert all(
        torch.equal(value, plain.state_dict()[name]) for name, value in tiny("bert").state_dict().items()
    )
    merged = weft.load(tmp_path / "full")
    assert torch.allclose(logits(merged, "a"), logits(weft.load(whole[0]), "a"), atol=1e-5)


@pytest.mark.parametrize(
    ("methods", "settings", "message"),
    [
        ((LORA,), {}, "merging needs two or more tasks; found 1"),
        ((LORA, "full"), {}, "one trains the encoder, and the other does not"),
        (("full", "full"), {"rank": 3}, "rank 3: method full has whole weights"),
        (("frozen", "frozen"), {}, "updates no weight and no bias; there is nothing to merge"),
        (("houlsby", "houlsby"), {}, "neither a low-rank"),
        (({"use": "pals", "d_s": 12},) * 2, {}, "trains the encoder and adapters together"),
        (("full", {"use": "full", "train_encoder": "biases"}), {}, "train_encoder is 'all' in"),
        ((LORA, LORA), {"rank": 0}, "rank must be at least 1; found 0"),
    ],
    ids=str,
)
def test_what_cannot_be_merged(methods, settings, message, make, tmp_path):
    bundles = [
        make(name, [task], method)
        for name, task, method in zip(("one", "two"), (A, B), methods, strict=False)
    ]
    with pytest.raises(WeftError, match=message):
        merge_bundles(bundles, tmp_path / "out", Merge("linear"), **settings)
    assert not (tmp_path / "out").exists()


def test_different_encoders(make, tmp_path):
    bundles = [
        make("one", [A], LORA),
        make("two", [B], LORA, encoder=tiny("roberta")),
    ]
    with pytest.raises(WeftError, match="needs a different encoder"):
        merge_bundles(bundles, tmp_path / "out", Merge("ties"))


def test_biases_of_all_sites(make, tmp_path):
    """`bitfit` also updates the pooler and the norm of the embeddings, which have no layer."""
    bundles = [make("one", [A], "bitfit"), make("two", [B], "bitfit")]
    done = merge_bundles(bundles, tmp_path / "out", Merge("linear"))
    assert done.method.name == "bitfit"
    assert done.errors == ()
    model = weft.load(tmp_path / "out")
    keys = {site.key for site, adapter in model.placements if isinstance(adapter, BiasAdapter)}
    assert keys == {site.key for site, _ in weft.load(bundles[0]).placements}
