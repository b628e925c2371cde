"""A task more, and a task less, for every method that there is."""

from __future__ import annotations

import pytest
import torch
from safetensors.torch import load_file

import weft
from tests.conformance.table import METHODS
from tests.support.new_task import CAT, add, answers, assert_all_the_same, assert_same
from weft.bundle.load import load_changed
from weft.bundle.one_task import hashes
from weft.bundle.save import task_tensors

pytestmark = pytest.mark.usefixtures("token_cache")


@pytest.mark.parametrize("name", METHODS)
def test_a_task_joins_and_leaves_and_nothing_else_has_changed(name, make, tmp_path):
    first = make(METHODS[name])
    before, told = hashes(first), answers(first, "abc")
    grown = add(first, tmp_path / "second")
    after = hashes(tmp_path / "second")
    assert set(after) - set(before) == {"tasks/cat.safetensors"}
    assert {file for file in before if before[file] != after[file]} == {"bundle.json"}
    assert grown.unchanged == {file: before[file] for file in before if file != "bundle.json"}
    assert_same(answers(tmp_path / "second", "abc"), told)
    model = weft.load(tmp_path / "second")
    assert [task.name for task in model.tasks] == ["a", "b", "c", "cat"]
    removed = weft.remove_task(tmp_path / "second", "cat", tmp_path / "third")
    assert_all_the_same(tmp_path / "third", first)
    assert removed.unchanged == grown.unchanged


@pytest.mark.parametrize("name", METHODS)
def test_what_is_the_new_tasks_own_has_moved(name, make, tmp_path):
    """Every tensor of its file but those that two steps leave at their start."""
    first = make(METHODS[name])
    add(first, tmp_path / "second", start="random")
    start = task_tensors(load_changed(first, added=[CAT]), "cat")
    now = load_file(tmp_path / "second" / "tasks" / "cat.safetensors")
    assert start.keys() == now.keys()
    moved = {key for key in now if not torch.equal(now[key], start[key])}
    assert any(key.startswith("heads.") for key in moved)
    own = {key for key in now if not key.startswith("heads.")}
    assert bool(own & moved) is bool(own)
