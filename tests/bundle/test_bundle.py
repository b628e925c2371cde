from __future__ import annotations

import copy
import hashlib
import json
import re
import shutil
from functools import cache

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

import weft
from tests.conformance.table import METHODS
from tests.support.sealing import contents_of, edit, reseal, unseal
from tests.support.tiny import FAMILIES, TASKS, batch, scramble, tiny
from tests.support.tiny_run import save_encoder
from weft.bundle.manifest import find_bundle
from weft.encoder.load import load_encoder
from weft.errors import WeftError


@pytest.fixture(scope="module")
def encoders(tmp_path_factory):
    """A saved tiny encoder of each family."""
    root = tmp_path_factory.mktemp("encoders")
    for family in FAMILIES:
        tiny(family).save_pretrained(root / family)
    return root


@cache
def _read(folder):
    return load_encoder(str(folder))


def read(folder):
    """What `load_encoder` gives, from the disk the first time."""
    return copy.deepcopy(_read(folder))


def hashes(folder):
    return {
        str(f.relative_to(folder)): hashlib.sha256(f.read_bytes()).hexdigest()
        for f in folder.rglob("*")
        if f.is_file()
    }


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("method", METHODS)
def test_saved_equals_loaded(method, family, encoders, tmp_path):
    model = scramble(weft.Model(read(encoders / family), TASKS, METHODS[method], max_length=17)).eval()
    if method == "full":
        with torch.no_grad():
            next(model.encoder.parameters()).add_(0.1)  # trained weights come along
    inputs = batch(model)
    model.save(tmp_path / "bundle")
    again = weft.load(tmp_path / "bundle").eval()
    with torch.no_grad():
        for one, other in zip(model.run(**inputs).logits, again.run(**inputs).logits, strict=True):
            assert torch.equal(one, other)
    assert (again.max_length, again.tasks, again.method) == (17, model.tasks, model.method)
    again.save(tmp_path / "again")
    assert hashes(tmp_path / "again") == hashes(tmp_path / "bundle")


@pytest.fixture
def bundle(encoders, tmp_path):
    model = scramble(weft.Model(encoders / "bert", TASKS, ["lora", {"use": "bitfit", "share": "all"}]))
    return model.save(tmp_path / "bundle")


def test_a_task_is_a_file(bundle):
    assert sorted(p.name for p in (bundle / "tasks").iterdir()) == [f"{t}.safetensors" for t in "abcd"]
    own = load_file(bundle / "tasks" / "b.safetensors")
    assert {k.split(".")[0] for k in own} == {"adapters", "heads"}
    assert own["heads.classify-3.weight"].shape == (3, 32)
    shared = load_file(bundle / "shared.safetensors")
    assert all(k.startswith("shared/adapters.") for k in shared)


@pytest.mark.parametrize("family", ["bert", "modernbert", "deberta-v3"])
@pytest.mark.parametrize("name", METHODS)
def test_adding_a_task_leaves_every_other_file_alone(name, family, encoders, tmp_path):
    """Its method, the shared file and the other tasks' files are the same bytes."""
    method = METHODS[name]
    three = weft.Model(read(encoders / family), TASKS[:3], method)
    three.save(tmp_path / "three")
    four = weft.Model(read(encoders / family), TASKS, method)
    with torch.no_grad():
        four.heads["classify-2"].weight[1].add_(1.0)  # of task d alone
    four.save(tmp_path / "four")
    before, after = hashes(tmp_path / "three"), hashes(tmp_path / "four")
    same = {name for name in before if before[name] == after.get(name)}
    assert same == {"shared.safetensors", *(f"tasks/{t}.safetensors" for t in "abc")}


def test_the_frozen_encoder_stays_outside(bundle):
    assert not any("encoder" in k for k in load_file(bundle / "shared.safetensors"))
    assert json.loads((bundle / "bundle.json").read_text())["encoder"]["included"] is None


def test_with_the_encoder_it_stands_alone(tmp_path):
    save_encoder(tmp_path / "encoder")
    model = weft.Model(tmp_path / "encoder", TASKS, "full")
    with torch.no_grad():
        next(model.encoder.parameters()).add_(0.1)
    model.save(tmp_path / "bundle", with_encoder=True)
    expected = model.predict([("a", "the cat sees"), ("c", "a dog")])
    shutil.rmtree(tmp_path / "encoder")
    assert weft.load(tmp_path / "bundle").predict([("a", "the cat sees"), ("c", "a dog")]) == expected
    # there may be no other copy of it: saved again, it goes along
    weft.load(tmp_path / "bundle").save(tmp_path / "again")
    assert weft.load(tmp_path / "again").predict([("a", "the cat sees"), ("c", "a dog")]) == expected
    tensors = load_file(tmp_path / "bundle" / "encoder" / "model.safetensors")
    save_file(
        {k: v + 1 for k, v in tensors.items()},
        tmp_path / "bundle" / "encoder" / "model.safetensors",
        {"format": "pt"},
    )
    with pytest.raises(WeftError, match=r"encoder/model.safetensors is damaged or was replaced"):
        weft.load(tmp_path / "bundle")
    with pytest.raises(WeftError, match="is not the encoder that came with this bundle"):
        weft.load(unseal(tmp_path / "bundle"))


def test_a_setting_that_came_later_does_not_make_a_bundle_another(bundle):
    """A bundle of before there were ranks by site and gates: its files stand on the settings of then."""
    said = contents_of(bundle)
    for part in said["method"]:
        part.pop("l0", None)
        part.pop("rank_pattern", None)
    edit(bundle, method=said["method"])
    with pytest.raises(WeftError, match="needs a different method"):
        weft.load(bundle)
    sha256 = hashlib.sha256(json.dumps(said["method"], sort_keys=True).encode()).hexdigest()
    for file in (bundle / "tasks").iterdir():
        with safe_open(file, "pt") as opened:
            facts = json.loads(opened.metadata()["weft"])
        facts["stands_on"]["method"] = sha256
        save_file(load_file(file), file, {"weft": json.dumps(facts, sort_keys=True)})
    loaded = weft.load(reseal(bundle))
    assert loaded.method.parts[0].l0 is None


@pytest.mark.parametrize(
    ("key", "value", "told"),
    [
        ("tasks", 5, "tasks is 5; expected the names of the tasks"),
        ("encoder", "bert", "encoder is 'bert'; expected its name and sha256"),
        ("heads", {"pool": "cls"}, "heads lacks 'dropout'"),
        ("max_length", "many", "max_length is 'many'; expected a number of tokens"),
    ],
)
def test_a_manifest_of_another_form(bundle, key, value, told):
    edit(bundle, **{key: value})
    with pytest.raises(WeftError, match=re.escape(told)):
        weft.load(bundle)


def test_random_and_passed_encoders_can_be_saved_too(tmp_path):
    model = weft.Model("random:bert-tiny", TASKS[:1], "lora", seed=3).eval()
    model.save(tmp_path / "random")
    ids = torch.randint(5, 99, (2, 6))
    assert torch.equal(weft.load(tmp_path / "random").eval().run(ids).logits[0], model.run(ids).logits[0])
    passed = weft.Model(tiny("bert"), TASKS[:1], "lora").eval()
    passed.save(tmp_path / "passed")
    for again in (weft.load(tmp_path / "passed", encoder=tiny("bert")), weft.load(tmp_path / "passed")):
        assert torch.equal(again.eval().run(ids).logits[0], passed.run(ids).logits[0])


def test_an_encoder_with_other_weights_is_refused(bundle, encoders):
    with pytest.raises(WeftError, match=r"a.safetensors needs a different encoder than this bundle has"):
        weft.load(bundle, encoder=encoders / "roberta")


def test_a_task_from_another_bundle_is_refused(bundle, encoders, tmp_path):
    other = scramble(
        weft.Model(encoders / "bert", TASKS, ["lora", {"use": "bitfit", "share": "all"}]), seed=9
    )
    other.save(tmp_path / "other")
    shutil.copy(tmp_path / "other" / "tasks" / "b.safetensors", bundle / "tasks" / "b.safetensors")
    with pytest.raises(WeftError, match=r"b.safetensors is damaged or was replaced"):
        weft.load(bundle)
    with pytest.raises(WeftError, match=r"b.safetensors needs a different shared"):
        weft.load(unseal(bundle))


def test_damage_is_named(bundle, tmp_path):
    """Without checksums, as in a bundle of an earlier version; test_checksums.py has the others."""
    unseal(bundle)
    path = bundle / "tasks" / "c.safetensors"
    whole = path.read_bytes()
    for broken, message in ((b"nonsense", "is not a task file"), (whole[:100], "is not a task file")):
        path.write_bytes(broken)
        with pytest.raises(WeftError, match=message):
            weft.load(bundle)
    path.unlink()
    with pytest.raises(WeftError, match=r"c.safetensors is missing, though bundle.json lists its task"):
        weft.load(bundle)
    path.write_bytes(whole)
    manifest = json.loads((bundle / "bundle.json").read_text())
    (bundle / "bundle.json").write_text(json.dumps({**manifest, "format": 99}))
    with pytest.raises(WeftError, match="format 99"):
        weft.load(bundle)
    for odd in ("[]", '{"format": 1}'):
        (bundle / "bundle.json").write_text(odd)
        with pytest.raises(WeftError, match=r"bundle.json"):
            weft.load(bundle)
    (bundle / "bundle.json").write_text(json.dumps(manifest))
    shared = (bundle / "shared.safetensors").rename(bundle / "away")
    with pytest.raises(WeftError, match=r"shared.safetensors is missing"):
        weft.load(bundle)
    shared.rename(bundle / "shared.safetensors")
    shutil.copy(bundle / "tasks" / "a.safetensors", path)
    with pytest.raises(WeftError, match=r"c.safetensors holds the task 'a'"):
        weft.load(bundle)
    path.write_bytes(whole)
    (bundle / "bundle.json").write_text("{")
    with pytest.raises(WeftError, match="is not JSON"):
        weft.load(bundle)
    with pytest.raises(WeftError, match="holds no bundle"):
        weft.load(tmp_path / "nowhere")


def test_a_folder_that_is_no_bundle_is_never_overwritten(bundle, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").touch()
    model = weft.load(bundle)
    with pytest.raises(WeftError, match="exists and is not a bundle"):
        model.save(tmp_path / "mine")
    before = hashes(bundle)
    model.save(bundle)  # a bundle is replaced
    assert hashes(bundle) == before
    assert find_bundle(bundle) == bundle
    assert [p.name for p in bundle.parent.glob(".*")] == []
