"""Some tasks of a bundle alone answer as they do among the others."""

from __future__ import annotations

import pytest
import torch

import weft
from tests.support.more import some_of
from tests.support.tiny import TASKS, batch, build, scramble
from weft.bundle.some_tasks import method_of_tasks
from weft.methods import METHODS

GROUPS = {"use": "lora", "rank": 2, "share": {"one": ["a", "b"], "two": ["c"]}}
CASES = {name: name for name in METHODS} | {
    "groups": GROUPS,
    "several": [GROUPS, {"use": "bitfit", "share": {"other": ["a", "d"]}}],
}


KEPT = ("groups", "several", "full", "separate", "ca_mtl", "hyperformer", "pals", "vera")


def logits(model, name):
    inputs = batch(model)
    inputs["task"] = torch.full((8,), model.task_id(name))
    with torch.no_grad():
        return torch.stack(list(model.run(**inputs).logits))


@pytest.mark.parametrize("method", some_of(CASES, KEPT))
def test_a_task_alone_answers_as_among_the_others(tmp_path, method):
    model = scramble(build("bert", CASES[method])).eval()
    model.save(tmp_path / "b")
    whole = weft.load(tmp_path / "b")
    for names in (["b"], ["d", "a"]):
        some = weft.load(tmp_path / "b", tasks=names)
        assert [task.name for task in some.tasks] == names
        for name in names:
            torch.testing.assert_close(logits(some, name), logits(whole, name), rtol=1e-5, atol=1e-6)


def test_what_was_loaded_alone_can_be_saved(tmp_path):
    model = scramble(build("bert", GROUPS)).eval()
    model.save(tmp_path / "b")
    some = weft.load(tmp_path / "b", tasks=["b", "d"])
    some.save(tmp_path / "less")
    assert torch.equal(logits(weft.load(tmp_path / "less"), "b"), logits(some, "b"))


def test_a_damaged_file_of_another_task_does_not_matter(tmp_path):
    build("bert", "lora").save(tmp_path / "b")
    (tmp_path / "b" / "tasks" / "a.safetensors").write_bytes(b"damaged")
    assert len(weft.load(tmp_path / "b", tasks=["b"]).tasks) == 1
    with pytest.raises(weft.WeftError, match="damaged"):
        weft.load(tmp_path / "b")


@pytest.mark.parametrize(
    ("tasks", "message"), [(["x"], "has no task 'x'"), ([], "expected the names"), (["a", "a"], "each once")]
)
def test_wrong_names(tmp_path, tasks, message):
    build("bert", "bitfit", tasks=TASKS[:2]).save(tmp_path / "b")
    with pytest.raises(weft.WeftError, match=message):
        weft.load(tmp_path / "b", tasks=tasks)


def test_groups_without_tasks_are_left_out():
    settings, left_out = method_of_tasks([GROUPS, "bitfit"], ["c", "d"])
    assert settings == [{**GROUPS, "share": {"two": ["c"]}}, "bitfit"]
    assert left_out == {"group:one"}
    assert method_of_tasks(GROUPS, ["d"])[0]["share"] == "task"
