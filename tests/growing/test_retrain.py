"""Training a task of a bundle again."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from safetensors.torch import load_file

import weft
from tests.conformance.table import METHODS
from tests.support.new_task import CAT, FAST, ROWS, answers, assert_same
from tests.support.tiny import TASKS
from weft.bundle.load import load_changed
from weft.bundle.one_task import hashes
from weft.bundle.save import task_tensors
from weft.errors import WeftError

pytestmark = pytest.mark.usefixtures("token_cache")

A = replace(TASKS[0], files=ROWS)
B = replace(
    TASKS[1],
    files={s: [{**row, "label": i % 3} for i, row in enumerate(rows)] for s, rows in ROWS.items()},
)
LORA = {"use": "lora", "rank": 3}
GROUPS = {"use": "lora", "rank": 2, "share": {"first": ["a", "c"], "second": ["b"]}}
SHARED = (
    *("full", "hydra", "lora-all", "lora-groups", "lora_bitfit_mtl"),
    *("reft-random", "road-everywhere"),  # tasks a and c are one group
)
"""Methods of the table that give task a nothing of its own, and train what all use."""


def retrain(bundle, out, task=A, fresh=False, **grow):
    return weft.retrain_task(
        bundle, task.name, task, out, training=FAST, grow=grow, fresh=fresh, progress=False
    )


@pytest.mark.parametrize("name", METHODS)
def test_one_tasks_file_is_another_and_nothing_else(name, make, tmp_path):
    bundle = make(METHODS[name])
    only = "head" if name in SHARED else "task"
    before, told = hashes(bundle), answers(bundle, "bc")
    done = retrain(bundle, tmp_path / "out", only=only)
    after = hashes(tmp_path / "out")
    changed = {"tasks/a.safetensors", "bundle.json"}  # which holds its checksum
    assert {file for file in before if before[file] != after[file]} == changed
    assert done.unchanged.keys() == before.keys() - changed
    assert_same(answers(tmp_path / "out", "bc"), told)
    if name in SHARED:
        with pytest.raises(WeftError, match=r"'a' cannot be retrained alone.*\n.*grow={'only': 'head'}"):
            retrain(bundle, tmp_path / "no")


def test_from_the_present_values_or_from_the_start(make, tmp_path):
    bundle = make(LORA)
    tiny = FAST.model_copy(update={"lr": 1e-9})
    here = load_file(bundle / "tasks" / "a.safetensors")
    start = task_tensors(load_changed(bundle, fresh=lambda item: item.owner == "task:a"), "a")
    for fresh, expected in ((False, here), (True, start)):
        out = tmp_path / str(fresh)
        weft.retrain_task(bundle, "a", A, out, training=tiny, fresh=fresh, progress=False)
        found = load_file(out / "tasks" / "a.safetensors")
        for key, value in found.items():
            torch.testing.assert_close(value, expected[key], atol=1e-6, rtol=0)
    assert not torch.allclose(here["heads.classify-2.weight"], start["heads.classify-2.weight"])
    # of a head alone nothing else begins anew
    grow, out = {"only": "head"}, tmp_path / "head"
    weft.retrain_task(bundle, "a", A, out, training=tiny, grow=grow, fresh=True, progress=False)
    for key, value in load_file(out / "tasks" / "a.safetensors").items():
        expected = start if key.startswith("heads.") else here
        torch.testing.assert_close(value, expected[key], atol=1e-6, rtol=0)


def test_the_reason_says_who_uses_what(make, tmp_path):
    with pytest.raises(WeftError, match=r"its parameters are those of group:first, which c use too"):
        retrain(make(GROUPS), tmp_path / "out")
    with pytest.raises(WeftError, match=r"no parameters except its head, and trains what b, c use too \(enc"):
        retrain(make("full", "full"), tmp_path / "out")
    with pytest.raises(WeftError, match=r"b, c use too \(shared\)"):
        retrain(make({"use": "lora", "share": "all"}, "all"), tmp_path / "out")


def test_a_group_of_one_is_its_own(make, tmp_path):
    """Its parameters are in the shared file: the others' files stand on another, with the same tensors."""
    bundle = make(GROUPS)
    told = answers(bundle, "ac")
    done = retrain(bundle, tmp_path / "out", B)
    assert "their tensors are unchanged" in done.notes[0]
    one, two = (load_file(f / "shared.safetensors") for f in (bundle, tmp_path / "out"))
    moved = {key.split("/")[0] for key in one if not torch.equal(one[key], two[key])}
    assert moved == {"group:second"}
    assert_same(answers(tmp_path / "out", "ac"), told)


def test_the_only_task_has_all_to_itself(make, tmp_path):
    bundle = make("full", tasks=TASKS[:1])
    retrain(bundle, tmp_path / "out")
    one, two = (load_file(f / "shared.safetensors") for f in (bundle, tmp_path / "out"))
    assert not all(torch.equal(one[key], two[key]) for key in one)


def test_in_its_own_place(make):
    bundle = make(LORA)
    told = answers(bundle, "bc")
    retrain(bundle, bundle)
    assert_same(answers(bundle, "bc"), told)


def test_refused(make, tmp_path):
    bundle = make(LORA)
    with pytest.raises(WeftError, match=r"tasks.cat: expected 'a', the task to retrain"):
        weft.retrain_task(bundle, "a", CAT, tmp_path / "out", training=FAST)
    flipped = replace(A, labels=("yes", "no"))
    with pytest.raises(
        WeftError, match=r"tasks.a.labels: the bundle has \('no', 'yes'\), the task file has \('yes', 'no'\)"
    ):
        retrain(bundle, tmp_path / "out", flipped)
    numbers = weft.Task("a", "regress", files=ROWS)
    with pytest.raises(
        WeftError, match=r"tasks.a.kind: the bundle has 'classify', the task file has 'regress'"
    ):
        retrain(bundle, tmp_path / "out", numbers)
    with pytest.raises(
        WeftError, match=r"grow.only: 'all' would change parameters that other tasks use; expected task or"
    ):
        retrain(bundle, tmp_path / "out", only="all")
    with pytest.raises(WeftError, match=r"has no task 'z'; known: a, b, c"):
        weft.retrain_task(bundle, "z", A, tmp_path / "out", training=FAST)


def test_settings_of_new_tasks_are_not_used_and_that_is_said(make, tmp_path):
    done = retrain(make(LORA), tmp_path / "out", start="b", fraction=0.5)
    assert done.notes == ("grow.start only applies to new tasks, and was not used",)
    assert done.rows["train"] == 15
