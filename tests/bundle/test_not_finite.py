"""Weights that are no numbers: no bundle is loaded with them, and none is written."""

from __future__ import annotations

import pytest
import torch

import weft
from tests.support.apart import BOTH, LORA, A, B, C, digest, said
from tests.support.new_task import CAT, FAST
from tests.support.not_finite import NUMBERS, contents, save_anyway, spoil
from tests.support.tiny import TASKS, scramble
from tests.support.tiny_run import rows_of
from weft.bundle.copy_task import copy_task
from weft.bundle.one_task import with_task
from weft.errors import WeftError

HEAD = "heads.classify-2.weight"  # of a and d
ROWS = {"train": rows_of("cat", 30, 1), "validation": rows_of("cat", 12, 2)}


def model_of(encoder, tasks=TASKS, method=LORA):
    return scramble(weft.Model(encoder, tasks, method))


@pytest.mark.each_value
@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize("name", [HEAD, "adapters.0/query.0.B"])
def test_a_task_file_is_refused_with_its_name_and_tensor(encoder, tmp_path, capsys, name, number):
    bundle = save_anyway(spoil(model_of(encoder), name, NUMBERS[number], slot=0), tmp_path / "bundle")
    file = bundle / "tasks" / "a.safetensors"
    with pytest.raises(WeftError, match=rf"{file}: 1 of the [\d,]+ numbers of '{name}' are NaN or infinite"):
        weft.load(bundle)
    with pytest.raises(WeftError, match="NaN or infinite"):
        weft.Model.from_pretrained(bundle)
    for command in (["predict", bundle, "--task", "b", "--text", "the cat"], ["show", "storage", bundle]):
        code, printed = said(capsys, *command)
        assert (code, printed.out) == (2, "")
        assert f"weft task remove {bundle} a --out NEW" in printed.err
        assert "Traceback" not in printed.err


@pytest.mark.parametrize("method", ["full", {"use": "lora", "rank": 2, "share": "all"}])
def test_what_tasks_share_is_refused(encoder, tmp_path, method):
    model = model_of(encoder, method=method)
    name = next(n for n, p in model.named_parameters() if p.requires_grad and not n.startswith("heads"))
    bundle = save_anyway(spoil(model, name), tmp_path / "bundle")
    with pytest.raises(WeftError, match=r"shared\.safetensors: 1 of the (.|\n)* all tasks need them"):
        weft.load(bundle)


def test_an_encoder_is_refused_where_nothing_replaces_its_weights(encoder, tmp_path):
    weights = weft.load_encoder(encoder)
    with torch.no_grad():
        weights.model.embeddings.word_embeddings.weight[5, 3] = float("nan")
    spoilt = tmp_path / "spoilt"
    weights.model.save_pretrained(spoilt)
    weights.tokenizer.save_pretrained(spoilt)
    bundle = weft.Model(spoilt, [A], LORA).save(tmp_path / "bundle", with_encoder=True)
    name = "encoder.embeddings.word_embeddings.weight"
    with pytest.raises(WeftError, match=rf"encoder.*: weights of the encoder of .* are NaN or .* \({name}\)"):
        weft.load(bundle)
    # trained weights take the place of all of its own
    whole = weft.Model(encoder, [A], "full").save(tmp_path / "whole", with_encoder=True)
    assert weft.load(whole)


def test_the_other_tasks_are_saved_by_the_commands_of_the_message(encoder, tmp_path):
    good = scramble(weft.Model(encoder, [A, B, CAT], LORA, max_length=FAST.max_length)).save(
        tmp_path / "good"
    )
    bad = save_anyway(
        spoil(weft.load(good), HEAD, slot=1), tmp_path / "bad"
    )  # the head of cat, which is the second of its shape
    with pytest.raises(WeftError, match=r"tasks/cat\.safetensors"):
        weft.load(bad)
    weft.remove_task(bad, "cat", tmp_path / "without")
    assert [task.name for task in weft.load(tmp_path / "without").tasks] == ["a", "b"]
    done = weft.retrain_task(bad, "cat", CAT, tmp_path / "again", training=FAST, fresh=True, progress=False)
    assert done.folder == tmp_path / "again"
    again, before = weft.load(tmp_path / "again"), weft.load(good)
    for name in ("a", "b"):
        file = f"tasks/{name}.safetensors"
        assert digest(tmp_path / "again" / file) == digest(good / file)
    assert all(p.isfinite().all() for p in again.parameters())
    assert not torch.equal(again.heads["classify-2"].weight[1], before.heads["classify-2"].weight[1])
    with pytest.raises(WeftError, match="NaN or infinite"):
        weft.retrain_task(bad, "cat", CAT, tmp_path / "no", training=FAST, progress=False)


def test_nothing_is_copied_joined_or_started_from(encoder, tmp_path):
    bad = save_anyway(spoil(model_of(encoder, [B]), "adapters.0/query.0.B"), tmp_path / "bad")
    target = model_of(encoder, [A]).save(tmp_path / "target")
    before = contents(target)
    with pytest.raises(WeftError, match=r"bad/tasks/b\.safetensors: 1 of the .* NaN or infinite"):
        copy_task(bad, "b", target)
    with pytest.raises(WeftError, match=r"bad/tasks/b\.safetensors: 1 of the .* NaN or infinite"):
        weft.assemble([bad, target], tmp_path / "joined")
    tensors = {"x": torch.tensor([float("inf")])}
    with pytest.raises(WeftError, match=rf"task 'c' is not written to .*; {target} is unchanged"):
        with_task(target, target, C.settings(), tensors)
    model = model_of(encoder, [B])
    with pytest.raises(WeftError, match=r"bad/tasks/b\.safetensors: 1 of the .* NaN or infinite"):
        weft.start_from(model, bad)
    assert contents(target) == before
    assert not (tmp_path / "joined").exists()


def test_a_trained_encoder_is_not_started_from_either(encoder, tmp_path):
    """With a different method only the encoder and the heads are copied."""
    model = spoil(model_of(encoder, [B], "full"), "encoder.encoder.layer.0.output.dense.weight")
    bad = save_anyway(model, tmp_path / "bad")
    with pytest.raises(WeftError, match=r"bad/shared\.safetensors: 1 of the .* NaN or infinite"):
        weft.start_from(model_of(encoder, [B], "separate"), bad)


@pytest.mark.parametrize(
    ("method", "name", "whose"),
    [
        (LORA, HEAD, "of task 'a'"),
        (BOTH, "adapters.1/query.0.A", "of task 'a'"),
        ("full", "encoder.encoder.layer.1.output.dense.weight", "of the encoder"),
        ({**LORA, "share": "all"}, "adapters.0/query.0.A", "that all tasks share"),
        ({**LORA, "share": {"pair": ["a", "b"]}}, "adapters.0/query.0.A", "of group 'pair'"),
    ],
)
def test_a_good_bundle_is_never_replaced_by_a_bad_one(encoder, tmp_path, method, name, whose):
    model = model_of(encoder, method=method)
    model.save(tmp_path / "bundle")
    before = contents(tmp_path / "bundle")
    with pytest.raises(WeftError, match=rf"not saved to .*bundle: weights {whose} are NaN or infinite"):
        spoil(model, name).save(tmp_path / "bundle")
    assert contents(tmp_path / "bundle") == before
    assert [path.name for path in tmp_path.iterdir()] == ["bundle"]
