"""Where a new task begins."""

from __future__ import annotations

import math

import pytest
import torch
from safetensors.torch import load_file

import weft
from tests.support.new_task import CAT, add
from tests.support.tiny import TASKS
from weft.bundle.load import load_changed
from weft.bundle.save import task_tensors
from weft.errors import WeftError
from weft.growing.heads import head_of, mapped_head, random_head
from weft.growing.start import StartValues
from weft.training.optim.l0 import decide, gates_of
from weft.utils.seeding import generator

pytestmark = pytest.mark.usefixtures("token_cache")

LORA = {"use": "lora", "rank": 3}
CA_MTL = {"use": "ca_mtl", "length": 24, "blocks": 3}
GROUPS = {"use": "lora", "rank": 2, "share": {"first": ["a", "c"], "second": ["b"]}}


def own(folder, name, model=None):
    """What is a task's own, its head left out, as its file holds it."""
    found = (
        load_file(folder / "tasks" / f"{name}.safetensors") if model is None else task_tensors(model, name)
    )
    return {key: value for key, value in found.items() if not key.startswith("heads.")}


def begun(bundle, start):
    model = load_changed(bundle, added=[CAT])
    StartValues(model, "cat").take(start)
    return model


def assert_equal(one, other):
    assert one
    assert one.keys() == other.keys()
    for key in one:
        assert torch.equal(one[key], other[key]), key


@pytest.mark.parametrize("method", [LORA, CA_MTL, "separate", "pals", ["lora", "bitfit"]])
def test_at_another_tasks(method, make):
    bundle = make(method)
    found = own(bundle, "cat", begun(bundle, "b"))
    expected = own(bundle, "b")
    assert_equal({k.replace("task:cat", "task:b"): v for k, v in found.items()}, expected)


@pytest.mark.parametrize("method", [LORA, CA_MTL, "separate"])
def test_at_the_mean_of_all(method, make):
    bundle = make(method)
    found = own(bundle, "cat", begun(bundle, "average"))
    for key, value in found.items():
        theirs = [own(bundle, t)[key.replace("task:cat", f"task:{t}")] for t in "abc"]
        torch.testing.assert_close(value, torch.stack(theirs).mean(0))


def test_random_is_what_it_would_have_been_at_first(make, encoder):
    bundle = make(LORA)
    fresh = weft.Model(encoder, [CAT], LORA, max_length=16)
    model = begun(bundle, "a")
    StartValues(load_changed(bundle, added=[CAT]), "cat")
    beginnings = StartValues(model, "cat")
    assert_equal(task_tensors(begun(bundle, "random"), "cat"), task_tensors(fresh, "cat"))
    assert beginnings.candidates() == ["a", "b", "c", "average", "random"]


def test_xavier_draws_the_vector(make):
    bundle = make(CA_MTL)
    model = begun(bundle, "xavier")
    (z,) = own(bundle, "cat", model).values()
    bound = math.sqrt(6 / (4 + 32))
    (place,) = StartValues(model, "cat").tensors
    draws = generator(model.seed, "task:cat", "xavier", place.name)
    assert torch.equal(z, torch.empty(32).uniform_(-bound, bound, generator=draws))
    (again,) = own(bundle, "cat", begun(bundle, "xavier")).values()
    assert torch.equal(z, again)
    assert StartValues(model, "cat").candidates()[-1] == "xavier"


def test_beside_groups_it_has_its_own_and_may_begin_at_a_groups(make, tmp_path):
    bundle = make(GROUPS)
    shared = load_file(bundle / "shared.safetensors")
    for start, group in (("c", "group:first"), ("b", "group:second")):
        found = own(bundle, "cat", begun(bundle, start))
        assert_equal(
            {f"{group}/{k}": v for k, v in found.items()},
            {k: v for k, v in shared.items() if k.startswith(group)},
        )
    add(bundle, tmp_path / "out", start="a")
    assert set(own(tmp_path / "out", "cat")) == set(found)


def test_a_narrow_task_stays_narrow(encoder, tmp_path):
    """After L0 tasks have fewer components than a site has room for: the copy's file has no more."""
    model = weft.Model(encoder, TASKS[:3], {"use": "lora", "rank": 4, "l0": True}, max_length=16)
    with torch.no_grad():
        for gate in gates_of(model):
            gate.alpha.copy_(torch.tensor([[1, 1, 1, 1], [1, 0, 0, 0], [1, 1, 0, 0]]) * 5.0)
        for _, adapter in model.placements:
            adapter.B.normal_()
    decide(gates_of(model))
    bundle = model.compact().save(tmp_path / "bundle")
    assert {v.shape[0] for k, v in own(bundle, "b").items() if k.endswith(".A")} == {1}
    for start, rank in (("b", 1), ("c", 2), ("a", 4), ("average", 4), ("random", 4)):
        add(bundle, tmp_path / start, start=start)
        found = own(tmp_path / start, "cat")
        assert {v.shape[0] for k, v in found.items() if k.endswith(".A")} == {rank}, start
        assert {v.shape[1] for k, v in found.items() if k.endswith(".B")} == {rank}, start
        weft.load(tmp_path / start)


def test_a_head_by_labels(make):
    model = load_changed(make(LORA), added=[CAT])
    theirs = head_of(model, "b")
    found = mapped_head(model, "b", "cat", {"no": "z", "yes": "x"})
    assert torch.equal(found["weight"], theirs["weight"][[2, 0]])
    assert torch.equal(found["bias"], theirs["bias"][[2, 0]])
    same = mapped_head(model, "a", "cat", "same")
    assert torch.equal(same["weight"], head_of(model, "a")["weight"])
    draws = [random_head(model, "cat", number)["weight"] for number in (0, 0, 1)]
    assert torch.equal(draws[0], draws[1])
    assert not torch.equal(draws[0], draws[2])


WRONG = {
    "no such start": (
        {"start": "bb"},
        "grow.start: 'bb'; did you mean 'b'? known: a, auto, average, b, c, random, xavier",
    ),
    "no vector": (
        {"start": "xavier"},
        "'xavier' samples the vector of a task, and method 'lora' has no such vector",
    ),
    "no such task": ({"label_map": {"x": "same"}}, "grow.label_map.x: the bundle has no task 'x'"),
    "no such new label": (
        {"label_map": {"a": {"no": "no", "yes": "yes", "may": "no"}}},
        "grow.label_map.a.may: task 'cat' has no label 'may'",
    ),
    "no such label": (
        {"label_map": {"b": {"no": "x", "yes": "w"}}},
        "grow.label_map.b.yes: task 'b' has no label 'w'; known: x, y, z",
    ),
    "a label left out": (
        {"label_map": {"b": {"no": "x"}}},
        "'yes' is missing; expected every new label",
    ),
    "heads that do not fit": (
        {"label_map": {"b": "same"}},
        "same: the head of 'b' is classify-3, that of 'cat' is classify-2",
    ),
    "numbers have no labels": (
        {"label_map": {"c": {"no": "x", "yes": "y"}}},
        "task 'c' has no labels to map; expected 'same', if the heads fit",
    ),
    "no map": ({"label_map": ["a"]}, "expected {task: {new label: its label}}, or {task: same}"),
    "yes is true": ({"label_map": {"a": {True: "yes"}}}, "YAML reads no and yes as false and true"),
    "nothing": ({"fraction": 0}, "fraction: expected greater than 0; found 0"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_settings_are_told(case, make, tmp_path):
    grow, told = WRONG[case]
    with pytest.raises(WeftError) as wrong:
        add(make(LORA), tmp_path / "out", **grow)
    assert told in str(wrong.value)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("method", ["full", "frozen", {"use": "lora", "share": "all"}])
@pytest.mark.parametrize("start", ["auto", "average", "a"])
def test_there_is_nothing_to_begin_with(start, method, make, tmp_path):
    with pytest.raises(WeftError, match=r"gives a task no parameters except its head.*expected random"):
        add(make(method), tmp_path / "out", start=start)


def test_but_for_the_head_of_a_task_with_a_label_map(make, tmp_path):
    grown = add(make("full"), tmp_path / "out", start="a", label_map={"a": "same"})
    assert (grown.start, grown.head) == ("a", "a's, by label map")
