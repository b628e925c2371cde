"""Taking a task out, and taking one over from another bundle."""

from __future__ import annotations

import json
import shutil

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

import weft
from tests.support.apart import LORA, A, B, C, D, digest, logits
from tests.support.sealing import edit, reseal
from weft.bundle.manifest import task_file
from weft.bundle.one_task import hashes
from weft.errors import WeftError

GROUPS = {"use": "lora", "rank": 2, "share": {"first": ["a", "c"]}}
SEPARATE = "separate"
RIGHT = "the sha256 that is true"
ALL = {"encoder": RIGHT, "shared": RIGHT, "method": RIGHT}


def test_a_task_less(make, tmp_path):
    bundle = make("x", [A, B, C])
    removed = weft.remove_task(bundle, "b", tmp_path / "y")
    assert set(removed.unchanged) == {"shared.safetensors", "tasks/a.safetensors", "tasks/c.safetensors"}
    assert hashes(tmp_path / "y")["tasks/c.safetensors"] == digest(task_file(bundle, "c"))
    assert [t.name for t in weft.load(tmp_path / "y").tasks] == ["a", "c"]
    for name in "ac":
        assert torch.equal(logits(weft.load(tmp_path / "y"), name), logits(weft.load(bundle), name))


def test_what_cannot_be_taken_out(make, tmp_path):
    bundle = make("x", [A])
    with pytest.raises(WeftError, match="'a' is the only task of"):
        weft.remove_task(bundle, "a", tmp_path / "y")
    with pytest.raises(WeftError, match="has no task 'q'; known: a"):
        weft.remove_task(bundle, "q", tmp_path / "y")
    grouped = make("g", [A, B, C], GROUPS)
    with pytest.raises(WeftError, match=r"task 'c' is in the group 'first' of the method \(a, c\)"):
        weft.remove_task(grouped, "c", tmp_path / "y")
    assert [t.name for t in weft.load(weft.remove_task(grouped, "b", tmp_path / "y").folder).tasks] == [
        "a",
        "c",
    ]
    with pytest.raises(WeftError, match="holds no bundle"):
        weft.remove_task(tmp_path / "none", "a", tmp_path / "y")


def test_a_task_from_another_bundle(make, tmp_path):
    one, two = make("one", [A, B]), make("two", [C])
    before = hashes(two)
    done = weft.copy_task(one, "b", two, out=tmp_path / "three")
    assert hashes(two) == before
    assert digest(task_file(tmp_path / "three", "b")) == digest(task_file(one, "b"))
    whole = weft.load(tmp_path / "three")
    assert torch.equal(logits(whole, "b"), logits(weft.load(one), "b"))
    assert torch.equal(logits(whole, "c"), logits(weft.load(two), "c"))
    assert set(done.unchanged) == {"shared.safetensors", "tasks/c.safetensors"}
    weft.copy_task(one, "a", two)  # into the bundle itself
    assert [t.name for t in weft.load(two).tasks] == ["c", "a"]


@pytest.mark.parametrize("method", [LORA, SEPARATE, "bitfit"])
def test_under_another_name(method, make, tmp_path):
    one, two = make("one", [A, B], method), make("two", [B], method)
    with pytest.raises(WeftError, match=r"already has a task 'b'; choose a different name: rename=NAME"):
        weft.copy_task(one, "b", two)
    weft.copy_task(one, "b", two, rename="b2")
    whole = weft.load(two)
    assert whole.tasks[1].name == "b2"
    assert whole.tasks[1].labels == B.labels
    assert torch.equal(logits(whole, "b2"), logits(weft.load(one), "b"))
    if method != SEPARATE:  # whose encoders are named by their task
        assert load_file(task_file(two, "b2")).keys() == load_file(task_file(one, "b")).keys()
    with pytest.raises(WeftError, match="task name 'b 3' cannot be used"):
        weft.copy_task(one, "b", two, rename="b 3")


def test_bundles_that_do_not_stand_on_the_same(make, tmp_path):
    from tests.support.tiny_run import save_encoder

    one, two = make("one", [A], LORA), make("two", [B], {"use": "lora", "rank": 4})
    with pytest.raises(WeftError, match=r"(?s)do not match.*method\n.*one: \w{64}\n.*two: \w{64}"):
        weft.copy_task(one, "a", two)
    other = save_encoder(tmp_path / "other", "electra")
    with pytest.raises(WeftError, match=r"(?s)differ in \(sha256\):\n  encoder\n.*weft.add_task"):
        weft.copy_task(one, "a", make("three", [B], LORA, encoder=other))
    sharing = {"use": "pals", "d_s": 12, "share": "tasks"}
    three, four = make("3", [A], sharing), make("4", [B], sharing)
    with pytest.raises(
        WeftError, match=r"(?s)differ in \(sha256\):\n  shared.safetensors, what its tasks share"
    ):
        weft.copy_task(three, "a", four)
    with pytest.raises(WeftError, match=r"heads read 'pooler' in .* and 'mean' in"):
        weft.copy_task(one, "a", make("six", [B], LORA, pool="mean"))


def test_tasks_of_one_run_share_and_may_be_exchanged(make, tmp_path):
    """Bundles grown from one: what their tasks share is the same file."""
    bundle = make("x", [A, B, C, D], {"use": "pals", "d_s": 12})
    weft.remove_task(bundle, "d", tmp_path / "three")
    weft.remove_task(tmp_path / "three", "a", tmp_path / "two")
    weft.copy_task(bundle, "d", tmp_path / "two")
    assert torch.equal(logits(weft.load(tmp_path / "two"), "d"), logits(weft.load(bundle), "d"))


def test_a_member_of_a_group_is_no_file(make, tmp_path):
    one, two = make("one", [A, B, C], GROUPS), make("two", [A, C], GROUPS)
    (two / "shared.safetensors").write_bytes((one / "shared.safetensors").read_bytes())
    reseal(two)
    with pytest.raises(WeftError, match=r"task 'a' is in the group 'first' of the method \(a, c\)"):
        weft.copy_task(one, "a", two, rename="a2")


def test_lengths_that_differ_are_noted(make, tmp_path):
    one, two = make("one", [A], LORA, max_length=9), make("two", [B], LORA, max_length=11)
    (note,) = weft.copy_task(one, "a", two).notes
    assert "texts cut to 9 tokens" in note
    assert json.loads((two / "bundle.json").read_text())["max_length"] == 11


def test_a_copy_that_is_not_equal_is_noticed(make, tmp_path, monkeypatch):
    """The proof: a byte that changes on the way is told, and nothing is written."""
    bundle = make("x", [A, B])
    true_copy = shutil.copy

    def flipped(source, target):
        true_copy(source, target)
        if source.name == "b.safetensors":
            data = bytearray(target.read_bytes())
            data[-1] ^= 1
            target.write_bytes(bytes(data))

    monkeypatch.setattr(shutil, "copy", flipped)
    with pytest.raises(WeftError, match=r"b.safetensors differs from .*b.safetensors: check the disk"):
        weft.remove_task(bundle, "a", tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("facts", "told"),
    [
        ({"task": {"name": "a"}}, "is not a task file of a bundle"),
        ({"task": 3, "stands_on": {}}, "its metadata has a different form"),
        ({"task": {"name": "a"}, "stands_on": {}}, "does not record the encoder that it needs"),
        ({"task": {"name": "a"}, "stands_on": {**ALL, "shared": 3}}, "does not record the shared that it"),
        ({"task": {"name": "a"}, "stands_on": {"tokenizer": "x", **ALL}}, "needs 'tokenizer'"),
        ({"task": {"name": "a", "colour": "red"}, "stands_on": ALL}, "does not know a setting in its file"),
        ({"task": {"kind": "classify"}, "stands_on": ALL}, "holds the task None"),
    ],
)
def test_metadata_of_another_form_is_told(facts, told, make, tmp_path):
    bundle = make("x", [A, B])
    file = bundle / "tasks" / "a.safetensors"
    with safe_open(file, "pt") as opened:
        needs = json.loads(opened.metadata()["weft"])["stands_on"]
    if isinstance(facts.get("stands_on"), dict):
        true = {part: needs[part] for part, value in facts["stands_on"].items() if value is RIGHT}
        facts = {**facts, "stands_on": {**facts["stands_on"], **true}}
    save_file(load_file(file), file, {"weft": json.dumps(facts)})
    reseal(bundle)
    for call in (lambda: weft.load(bundle), lambda: weft.remove_task(bundle, "b", tmp_path / "out")):
        with pytest.raises(WeftError, match=told) as raised:
            call()
        assert str(bundle) in str(raised.value) or "'a'" in str(raised.value)


@pytest.mark.parametrize("names", [[], [1, 2], ["a", "a"]])
def test_a_list_of_tasks_that_is_none(names, make, tmp_path):
    bundle = make("x", [A, B])
    edit(bundle, tasks=names)
    with pytest.raises(WeftError, match="expected the names of the tasks, each once"):
        weft.remove_task(bundle, "a", tmp_path / "out")
