"""Beginning a run from another's weights, with another method."""

from __future__ import annotations

import json

import pytest
import torch
from safetensors.torch import load_file, save_file

import weft
from tests.support.tiny_run import save_encoder
from weft.bundle.checksums import ENCODER_WEIGHTS, write_manifest
from weft.errors import WeftError
from weft.model.ownership import owned
from weft.utils.checksums import file_sha256

TASKS = [weft.Task("a", size=2), weft.Task("b", size=3)]


@pytest.fixture
def encoder(tmp_path):
    return save_encoder(tmp_path / "encoder")


@pytest.fixture
def trained(encoder, tmp_path):
    """A bundle of `full`, every weight of which has moved."""
    model = weft.Model(encoder, TASKS, "full", seed=1)
    with torch.no_grad():
        for item in owned(model):
            item.data.add_(0.25)
    model.save(tmp_path / "full")
    return model


def rows():
    return {"input_ids": torch.tensor([[2, 6, 7, 3], [2, 8, 9, 3]]), "task": torch.tensor([0, 1])}


def test_tasks_trained_together_then_each_by_itself(encoder, trained, tmp_path):
    model = weft.Model(encoder, TASKS, "separate", seed=5)
    (note,) = weft.start_from(model, tmp_path / "full")
    assert "has method 'full', this run has 'separate'" in note
    assert "the heads of 2 tasks" in note
    expected, found = trained.eval()(**rows()), model.eval()(**rows())
    for shape, logits in expected.by_shape.items():
        torch.testing.assert_close(found.by_shape[shape], logits)
    alone = weft.Model(encoder, TASKS[1:], "full", seed=5)
    assert weft.start_from(alone, tmp_path / "full") == []
    torch.testing.assert_close(
        alone.eval()(**{**rows(), "task": torch.tensor([0, 0])}).hidden, expected.hidden
    )


def test_adapters_on_a_trained_encoder_start_anew(encoder, trained, tmp_path):
    method = {"use": "pals", "d_s": 12, "heads": 2, "zero_init": True}
    model = weft.Model(encoder, [*TASKS, weft.Task("c", size=2)], method, seed=5)
    notes = weft.start_from(model, tmp_path / "full")
    assert [("has no task 'c'" in note, "'pals'" in note) for note in notes] == [(True, False), (False, True)]
    torch.testing.assert_close(model.eval()(**rows()).hidden, trained.eval()(**rows()).hidden)


def test_a_bundle_could_not_hold_what_is_frozen(encoder, trained, tmp_path):
    model = weft.Model(encoder, TASKS, {"use": "lora", "rank": 2})
    before = [p.clone() for p in model.parameters()]
    with pytest.raises(
        WeftError, match=r"method 'lora' keeps the weights(.|\n)*\.merge\('a'\)\.save_pretrained"
    ):
        weft.start_from(model, tmp_path / "full")
    assert all(torch.equal(p, b) for p, b in zip(model.parameters(), before, strict=True))
    # what the message says to type
    weft.load(tmp_path / "full").merge("a").save_pretrained(tmp_path / "trained")
    begun = weft.Model(tmp_path / "trained", TASKS, {"use": "lora", "rank": 2})
    torch.testing.assert_close(begun.eval()(**rows()).hidden, trained.eval()(**rows()).hidden)


def test_there_must_be_something_to_begin_from(encoder, tmp_path):
    weft.Model(encoder, TASKS, {"use": "lora", "rank": 2}).save(tmp_path / "lora")
    with pytest.raises(WeftError, match="there is nothing to start from"):
        weft.start_from(weft.Model(encoder, TASKS, "full"), tmp_path / "lora")


CA_MTL = {"use": "ca_mtl", "length": 24, "blocks": 3}


def moved(encoder, method, tasks=TASKS):
    """A model in which all that trains, and all that the method adds, is far from its start."""
    model = weft.Model(encoder, tasks, method, seed=1)
    with torch.no_grad():
        for item in owned(model):
            if item.trains:
                item.data.add_(0.1)
    return model


@pytest.mark.parametrize(
    "method", [CA_MTL, {"use": "lora", "rank": 2}, {"use": "pals", "d_s": 12, "heads": 2}]
)
def test_methods_that_differ_only_in_what_trains_are_the_same(method, encoder, tmp_path):
    """CA-MTL's transfer: the lower half was frozen, and now all trains; no trained weight is dropped."""
    before = moved(encoder, {**method, "train_encoder": "layers 1"})
    before.save(tmp_path / "half")
    model = weft.Model(encoder, [*TASKS, weft.Task("c", size=2)], {**method, "train_encoder": "all"}, seed=5)
    lacks, note = weft.start_from(model, tmp_path / "half")
    assert "has no task 'c'" in lacks
    assert "'layers 1' there, 'all' here" in note
    expected, output = before.eval()(**rows()), model.eval()(**rows())
    assert torch.equal(output.hidden, expected.hidden)
    for name, parameter in before.named_parameters():
        if name.startswith(("encoder.", "adapters.")) and parameter.shape == model.get_parameter(name).shape:
            assert torch.equal(parameter, model.get_parameter(name)), name
    # what begins to train is saved, and a run of the same method starts from it without a note
    with torch.no_grad():
        model.encoder.embeddings.word_embeddings.weight.add_(1.0)
    model.save(tmp_path / "all")
    again = weft.Model(encoder, model.tasks, {**method, "train_encoder": "all"}, seed=7)
    assert weft.start_from(again, tmp_path / "all") == []
    assert all(torch.equal(p, again.get_parameter(name)) for name, p in model.named_parameters())


def test_weights_that_were_trained_must_go_on_training(encoder, tmp_path):
    moved(encoder, {**CA_MTL, "train_encoder": "all"}).save(tmp_path / "all")
    model = weft.Model(encoder, TASKS, {**CA_MTL, "train_encoder": "layers 1"}, seed=5)
    before = [p.clone() for p in model.parameters()]
    with pytest.raises(
        WeftError, match=r"frozen here \(train_encoder: 'layers 1'\)(.|\n)*set method.train_encoder='all'$"
    ):
        weft.start_from(model, tmp_path / "all")
    assert all(torch.equal(p, b) for p, b in zip(model.parameters(), before, strict=True))


def test_heads_that_were_fitted_on_a_frozen_encoder(encoder, tmp_path):
    """`frozen` and `full` have no adapters and differ only in what trains."""
    frozen = moved(encoder, "frozen")
    frozen.save(tmp_path / "frozen")
    model = weft.Model(encoder, TASKS, "full", seed=5)
    (note,) = weft.start_from(model, tmp_path / "frozen")
    assert "'none' there, 'all' here" in note
    expected, output = frozen.eval()(**rows()), model.eval()(**rows())
    assert all(torch.equal(output.by_shape[shape], expected.by_shape[shape]) for shape in expected.by_shape)
    model.save(tmp_path / "full")
    with pytest.raises(WeftError, match=r"\.merge\('a'\)\.save_pretrained"):
        weft.start_from(weft.Model(encoder, TASKS, "frozen"), tmp_path / "full")


def test_any_other_difference_is_a_different_method(encoder, tmp_path):
    moved(encoder, {**CA_MTL, "train_encoder": "all"}).save(tmp_path / "all")
    model = weft.Model(encoder, TASKS, {**CA_MTL, "train_encoder": "all", "norm": "none"}, seed=5)
    (note,) = weft.start_from(model, tmp_path / "all")
    assert "all else starts from initial values" in note


def test_a_bundle_whose_included_encoder_has_other_names_of_tensors(encoder, tmp_path):
    """Releases of transformers name tensors differently: the same weights are a file with another sha256."""
    before = moved(encoder, {"use": "lora", "rank": 2})
    bundle = tmp_path / "bundle"
    before.save(bundle, with_encoder=True)
    weights = bundle / ENCODER_WEIGHTS
    renamed = {f"bert.{name}": tensor for name, tensor in load_file(weights).items()}
    save_file(renamed, weights, metadata={"format": "pt"})
    manifest = json.loads((bundle / "bundle.json").read_text())
    assert file_sha256(weights) not in (manifest["encoder"]["sha256"], manifest["encoder"]["included"])
    manifest["encoder"]["included"] = file_sha256(weights)
    write_manifest(bundle, manifest)
    expected = before.eval()(**rows())
    for source in (encoder, bundle / "encoder"):
        model = weft.Model(source, TASKS, {"use": "lora", "rank": 2}, seed=5)
        assert weft.start_from(model, bundle) == []
        found = model.eval()(**rows())
        assert all(torch.equal(found.by_shape[shape], expected.by_shape[shape]) for shape in found.by_shape)
    other = {name: tensor + 0.5 for name, tensor in renamed.items()}
    save_file(other, weights, metadata={"format": "pt"})
    model = weft.Model(bundle / "encoder", TASKS, {"use": "lora", "rank": 2}, seed=5)
    with pytest.raises(WeftError, match="needs a different encoder"):
        weft.start_from(model, bundle)
