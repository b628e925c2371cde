"""Adding a task: what trains, what is written, what is refused."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
import torch
import yaml
from safetensors import safe_open
from safetensors.torch import load_file, save_file

import weft
from tests.support.new_task import CAT, FAST, ROWS, add, answers, assert_all_the_same, assert_same
from tests.support.sealing import edit, reseal
from tests.support.tiny import TASKS
from weft.bundle.load import load_changed
from weft.bundle.manifest import method_sha256
from weft.bundle.one_task import hashes
from weft.bundle.save import task_tensors
from weft.errors import RunFailed, WeftError

pytestmark = pytest.mark.usefixtures("token_cache")

LORA = {"use": "lora", "rank": 3}
MORRIS = {"use": "morris", "rank": 4, "bias_rank": 2}


def test_head_alone(make, tmp_path):
    bundle = make(LORA)
    add(bundle, tmp_path / "out", only="head", start="b")
    found = load_file(tmp_path / "out" / "tasks" / "cat.safetensors")
    theirs = load_file(bundle / "tasks" / "b.safetensors")
    own = [key for key in found if not key.startswith("heads.")]
    assert own
    assert all(torch.equal(found[key], theirs[key]) for key in own)
    start = task_tensors(load_changed(bundle, added=[CAT]), "cat")
    assert not torch.equal(found["heads.classify-2.weight"], start["heads.classify-2.weight"])


@pytest.mark.parametrize("method", ["full", MORRIS, {"use": "ca_mtl", "length": 24}])
def test_all_moves_what_tasks_share_and_says_so(method, make, tmp_path):
    bundle = make(method)
    told = answers(bundle, "abc")
    grown = add(bundle, tmp_path / "out", only="all", start="random")
    assert any("the answers of a, b, c have changed" in note for note in grown.notes)
    assert not any(torch.equal(a, b) for a, b in zip(answers(tmp_path / "out", "abc"), told, strict=True))
    assert "shared.safetensors" not in grown.unchanged
    assert [t.name for t in weft.load(tmp_path / "out").tasks] == ["a", "b", "c", "cat"]
    # other tasks' own tensors stay all the same: their rows were in no step
    for name in "abc":
        one, two = (load_file(f / "tasks" / f"{name}.safetensors") for f in (bundle, tmp_path / "out"))
        assert all(torch.equal(one[key], two[key]) for key in one)


@pytest.mark.parametrize("method", [LORA, "separate", "frozen"])
def test_all_is_no_more_than_the_task_where_tasks_share_nothing(method, make, tmp_path):
    bundle = make(method)
    add(bundle, tmp_path / "task", only="task")
    grown = add(bundle, tmp_path / "all", only="all")
    assert_all_the_same(tmp_path / "task", tmp_path / "all")
    assert grown.notes == ()


def test_in_its_own_place(make, tmp_path):
    bundle = make(LORA)
    before, told = hashes(bundle), answers(bundle, "abc")
    add(bundle, bundle)
    assert_same(answers(bundle, "abc"), told)
    weft.remove_task(bundle, "cat", bundle)
    assert hashes(bundle) == before
    assert [p.name for p in tmp_path.iterdir()] == ["bundle"]  # nothing half-written is left


def test_a_run_that_fails_leaves_the_bundle_as_it_was(make, tmp_path, monkeypatch):
    bundle = make(LORA)
    before = hashes(tmp_path)
    with pytest.raises(RunFailed, match="diverged"):
        weft.add_task(
            bundle, CAT, bundle, training=FAST.model_copy(update={"lr": 1e30, "clip": None}), progress=False
        )
    assert hashes(tmp_path) == before
    # the disk ends in the middle of the last file
    from weft.bundle import one_task

    def full(folder, contents, known):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(one_task, "write_manifest", full)
    with pytest.raises(OSError, match="the disk is full"):
        add(bundle, bundle)
    assert hashes(tmp_path) == before


def test_the_encoder_that_came_with_a_bundle_goes_along(encoder, tmp_path):
    model = weft.Model(encoder, TASKS[:2], "full", max_length=16)
    bundle = model.save(tmp_path / "bundle", with_encoder=True)
    (bundle / "notes.txt").write_text("mine")  # what else lies there too
    grown = add(bundle, tmp_path / "out")
    assert {"encoder/model.safetensors", "encoder/tokenizer.json", "notes.txt"} <= set(grown.unchanged)
    whole = add(bundle, tmp_path / "all", only="all")
    assert (tmp_path / "all" / "encoder" / "tokenizer.json").is_file()
    assert "tasks/a.safetensors" not in whole.unchanged  # it needs a different shared file
    weft.load(tmp_path / "all")


def older(bundle):
    """The bundle as a weft wrote it that had fewer settings."""
    said = json.loads((bundle / "bundle.json").read_text())
    for key in ("l0", "rank_pattern"):
        said["method"].pop(key)
    edit(bundle, method=said["method"])
    for file in (bundle / "tasks").iterdir():
        with safe_open(file, "pt") as opened:
            facts = json.loads(opened.metadata()["weft"])
        facts["stands_on"]["method"] = method_sha256(said["method"])
        save_file(load_file(file), file, {"weft": json.dumps(facts, sort_keys=True)})
    return reseal(bundle)


def test_a_bundle_of_an_older_weft_stays_as_it_was_written(make, tmp_path):
    bundle = older(make(LORA))
    add(bundle, tmp_path / "out")
    weft.load(tmp_path / "out")
    assert "rank_pattern" not in (tmp_path / "out" / "bundle.json").read_text()
    weft.remove_task(tmp_path / "out", "cat", tmp_path / "back")
    assert_all_the_same(tmp_path / "back", bundle)
    # and a task may go from it to a bundle of today, whose settings mean the same
    today = make(LORA, "today", TASKS[:2])
    weft.copy_task(tmp_path / "out", "cat", today)
    assert_same(answers(today, ["cat"]), answers(tmp_path / "out", ["cat"]))


def test_two_tasks_one_after_the_other(make, tmp_path):
    """In any order of leaving, the first bundle comes back."""
    bundle = make(MORRIS)
    add(bundle, tmp_path / "one")
    add(tmp_path / "one", tmp_path / "two", replace(CAT, name="dog"), start="cat")
    weft.remove_task(tmp_path / "two", "cat", tmp_path / "three")
    weft.remove_task(tmp_path / "three", "dog", tmp_path / "four")
    assert_all_the_same(tmp_path / "four", bundle)


def test_few_rows_and_none_to_validate_on(make, tmp_path):
    task = replace(CAT, files={"train": ROWS["train"]})
    grown = add(make(LORA), tmp_path / "out", task, fraction=0.03)
    assert grown.rows == {"train": 1, "train_given": 27, "validation": 3, "validation_is_cut": True}
    assert grown.scores["rows"] == {"cat": 3}
    assert "3 of 30 training rows are used for validation" in grown.notes[0]
    assert "no training row of task 'cat' has the label" in grown.notes[1]


def test_the_folder_of_the_training_is_kept_where_asked_for(make, tmp_path):
    training = FAST.model_copy(update={"evaluate_every": 1, "steps": 3})
    weft.add_task(make(LORA), CAT, tmp_path / "out", training=training, run=tmp_path / "run", progress=False)
    assert {"run.yaml", "log.jsonl", "metrics.json"} <= {p.name for p in (tmp_path / "run").iterdir()}
    assert not (tmp_path / "run" / "bundle").exists()
    said = yaml.safe_load((tmp_path / "run" / "run.yaml").read_text())
    assert said["grow"]["only"] == "task"
    assert said["train"]["steps"] == 3
    log = [json.loads(line) for line in (tmp_path / "run" / "log.jsonl").read_text().splitlines()]
    assert log[0]["tasks"] == ["cat"]
    scores = {e["step"]: e["average"] for e in log if e["event"] == "evaluation"}
    assert log[-1]["best_step"] == max(scores, key=lambda step: (scores[step], -step))
    with pytest.raises(WeftError, match="this already exists; pass a new folder"):
        weft.add_task(tmp_path / "bundle", CAT, tmp_path / "two", training=FAST, run=tmp_path / "run")


def test_what_a_head_alone_learns_with(make, tmp_path):
    """The rate of `frozen` where nothing but the head trains; else the method's own."""
    bundle = make("full")
    for only, rate in (("task", 1e-3), ("all", 1e-4)):
        run = tmp_path / f"run {only}"
        training = FAST.model_copy(update={"lr": None})
        weft.add_task(
            bundle, CAT, tmp_path / only, training=training, grow={"only": only}, run=run, progress=False
        )
        assert yaml.safe_load((run / "run.yaml").read_text())["train"]["lr"] == rate


def test_refused(make, encoder, tmp_path):
    bundle = make(LORA)
    with pytest.raises(
        WeftError, match=r"the bundle has a task of this name.*weft.retrain_task\(BUNDLE, 'a'"
    ):
        add(bundle, tmp_path / "out", replace(CAT, name="a"))
    with pytest.raises(WeftError, match=r"max_length: 20; .* cuts the texts of all its tasks to 16 tokens"):
        weft.add_task(bundle, CAT, tmp_path / "out", training=weft.Training(max_length=20))
    (tmp_path / "mine").mkdir()
    (tmp_path / "file").write_text("mine")
    for place, told in (
        (tmp_path / "mine", "this already exists"),
        (make(LORA, "another"), "this already exists"),
        (tmp_path / "file", "this already exists"),
        (tmp_path / "file" / "deep" / "in", "file is a file"),
        (bundle / "in", "is inside the bundle"),
        (tmp_path, "the bundle is inside this folder; to change it in place pass out="),
    ):
        with pytest.raises(WeftError, match=told):
            add(bundle, place)
    for run in (tmp_path / "out", tmp_path / "out" / "run", bundle / "run", tmp_path):
        with pytest.raises(WeftError, match=r"run .*(the bundle|out) is|this already exists"):
            add(bundle, tmp_path / "out", run=run)
    for name in ("auto", "average", "random", "xavier"):
        with pytest.raises(WeftError, match="this name is reserved as a value of"):
            add(bundle, tmp_path / "out", replace(CAT, name=name))
    odd = make(LORA, "odd", tasks=[TASKS[0], replace(TASKS[3], name="average")])
    with pytest.raises(WeftError, match="a task of this name cannot have a label map"):
        add(odd, tmp_path / "out", label_map={"average": "same"})
    gated = weft.Model(encoder, TASKS[:2], {**LORA, "l0": True}, max_length=16).save(tmp_path / "gated")
    with pytest.raises(WeftError, match=r"still have gates.*weft.load\(.*\).compact\(\).save\('SMALL'\)"):
        add(gated, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_label_map_is_never_passed_over(make, tmp_path):
    """Without a start it means auto, for any method; a start that does not use it is told."""
    for method, own in ((LORA, True), ("full", False)):
        found = add(make(method, str(own)), tmp_path / f"auto {own}", label_map={"a": "same"})
        assert found.zero_shot is not None
        starts = [c.start for c in found.zero_shot.candidates]
        assert starts == ["a", "b", "c", *(["average"] if own else []), "random"]
    found = add(make(LORA, "third"), tmp_path / "mean", start="average", label_map={"a": "same"})
    assert any("label_map was not used" in note for note in found.notes)


CA_MTL = {"use": "ca_mtl", "length": 24, "blocks": 3}


def test_what_was_done_can_be_done_again(make, tmp_path):
    """run.yaml of a call names the start that was taken, and is a task file itself."""
    from weft.config.task_file import Host, load_task_file
    from weft.methods import build_method

    bundle = make(CA_MTL)
    grown = add(bundle, tmp_path / "out", run=tmp_path / "run")
    said = yaml.safe_load((tmp_path / "run" / "run.yaml").read_text())
    assert said["grow"]["start"] == grown.start
    said["tasks"][0]["train"] = said["tasks"][0]["validation"] = "rows.jsonl"
    (tmp_path / "again.yaml").write_text(yaml.safe_dump(said))
    tasks = {task.name: task for task in weft.load(bundle).tasks}
    host = Host(bundle, tasks, build_method(CA_MTL), 16)
    assert load_task_file(tmp_path / "again.yaml", [], host).grow.start == grown.start


def test_an_encoder_behind_a_link_is_refused(encoder, tmp_path):
    """The link may lead to any folder of this machine, whose files would be copied."""
    model = weft.Model(encoder, TASKS[:2], LORA, max_length=16)
    bundle = model.save(tmp_path / "bundle", with_encoder=True)
    (bundle / "encoder").rename(tmp_path / "elsewhere")
    (bundle / "encoder").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(WeftError, match=r"encoder is a link to .*elsewhere; weft does not follow links"):
        add(bundle, tmp_path / "out")
    (bundle / "encoder").unlink()
    with pytest.raises(WeftError, match=r"model.safetensors is missing, though .*bundle.json"):
        weft.remove_task(bundle, "a", tmp_path / "less")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bundle", "elsewhere"]


@pytest.mark.parametrize("only", ["task", "all"])
def test_a_link_in_the_place_of_the_bundle(only, make, tmp_path):
    """What it points to is exchanged; the link stays."""
    bundle = make("pals")
    link = tmp_path / "link"
    link.symlink_to(bundle)
    add(link, link, only=only)
    assert link.is_symlink()
    assert [task.name for task in weft.load(bundle).tasks] == ["a", "b", "c", "cat"]
    assert not [p for p in tmp_path.iterdir() if p.name.startswith(".")]
