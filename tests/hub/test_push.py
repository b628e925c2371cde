"""Publishing a bundle: what is uploaded, and that it comes back bit for bit."""

from __future__ import annotations

import json
import shutil

import pytest
import torch

import weft
from tests.support.hub_client import address_to, files_of
from tests.support.hub_state import READER
from tests.support.tiny import TASKS, scramble
from tests.support.tiny_run import save_encoder
from weft.bundle.manifest import find_bundle, read_manifest

TEXTS = [("cat", "the cat sees a dog"), ("same", ("a red bird", "the old dog")), ("count", "very new")]


def assert_equal_models(one: weft.Model, two: weft.Model) -> None:
    first, second = one.state_dict(), two.state_dict()
    assert first.keys() == second.keys()
    assert all(torch.equal(first[key], second[key]) for key in first)


def test_push_then_load_gives_the_same_tensors_and_answers(hub, run):
    done = weft.push(run, "anna/reviews", with_encoder=True, message="first", progress=False)
    assert done.url == f"{hub.address}/anna/reviews"
    here, there = weft.load(run), weft.load("anna/reviews")
    assert_equal_models(here, there)
    assert here.predict(TEXTS) == there.predict(TEXTS)
    assert hub.repositories["anna/reviews"].messages[-1] == "first"
    assert hub.repositories["anna/reviews"].branches["main"] == done.commit


def test_only_the_files_of_the_bundle_and_the_card_are_uploaded(hub, run):
    (find_bundle(run) / "notes.txt").write_text("private")
    (find_bundle(run) / ".cache").mkdir(exist_ok=True)
    (find_bundle(run) / ".cache" / "x").write_text("private")
    try:
        done = weft.push(run, "anna/reviews", with_encoder=True, progress=False)
    finally:
        (find_bundle(run) / "notes.txt").unlink()
        shutil.rmtree(find_bundle(run) / ".cache")
    files = hub.repositories["anna/reviews"].files
    assert set(files) - {".gitattributes"} == set(done.files)
    listed = set(json.loads(files["bundle.json"])["files"])
    assert set(done.files) == listed | {"bundle.json", "README.md"}
    assert {path.partition("/")[0] for path in listed} == {"shared.safetensors", "tasks", "encoder"}


def test_nothing_that_is_uploaded_names_a_folder_of_this_machine(hub, run):
    weft.push(run, "anna/reviews", with_encoder=True, progress=False)
    for path, data in hub.repositories["anna/reviews"].files.items():
        assert b"private-place" not in data, path


def test_an_included_encoder_loses_only_its_path(hub, tmp_path):
    encoder = save_encoder(tmp_path / "my-encoder")
    model = scramble(weft.Model(encoder, TASKS[:2], "lora", max_length=24)).eval()
    model.save(tmp_path / "bundle", with_encoder=True)
    weft.push(tmp_path / "bundle", "anna/x", progress=False)
    manifest = json.loads(hub.repositories["anna/x"].files["bundle.json"])
    before = read_manifest(tmp_path / "bundle")
    assert manifest["encoder"].pop("name") == "my-encoder"
    assert before["encoder"].pop("name") == str(encoder)
    assert {**manifest, "sha256": 0} == {**before, "sha256": 0}
    shutil.rmtree(encoder)
    assert_equal_models(model, weft.load("anna/x"))


def test_a_model_in_memory_can_be_pushed(hub, tmp_path):
    model = scramble(weft.Model("random:bert-tiny", TASKS[:2], "bitfit")).eval()
    weft.push(model, "anna/x", private=True, progress=False)
    assert hub.repositories["anna/x"].private
    assert_equal_models(model, weft.load("anna/x"))


def test_an_encoder_in_a_folder_that_is_not_included_is_refused(hub, run):
    with pytest.raises(weft.WeftError, match=r"needs the encoder in .*\n.*with_encoder=True"):
        weft.push(run, "anna/reviews", progress=False)
    assert hub.repositories == {}


def test_a_second_push_replaces_the_bundle_and_removes_what_it_no_longer_has(hub, tmp_path):
    model = scramble(weft.Model("random:bert-tiny", TASKS[:3], "lora")).eval()
    model.save(tmp_path / "b")
    weft.push(tmp_path / "b", "anna/x", progress=False)
    repository = hub.repositories["anna/x"]
    repository.commit("main", {**repository.files, "picture.png": b"mine"}, "a file of the user")
    weft.remove_task(tmp_path / "b", "b", tmp_path / "b")
    done = weft.push(tmp_path / "b", "anna/x", progress=False)
    assert done.removed == ("tasks/b.safetensors",)
    assert [task.name for task in weft.load("anna/x").tasks] == ["a", "c"]
    assert repository.files["picture.png"] == b"mine"


def test_a_branch_and_an_older_commit_can_be_loaded(hub, tmp_path):
    model = scramble(weft.Model("random:bert-tiny", TASKS[:2], "lora")).eval()
    model.save(tmp_path / "b")
    first = weft.push(tmp_path / "b", "anna/x", progress=False)
    other = scramble(weft.Model("random:bert-tiny", TASKS[:2], "lora"), seed=9).eval()
    weft.push(other, "anna/x", revision="trial", progress=False)
    assert_equal_models(weft.load("anna/x"), model)
    assert_equal_models(weft.load("anna/x@trial"), other)
    weft.push(other, "anna/x", progress=False)
    assert_equal_models(weft.load("anna/x"), other)
    assert_equal_models(weft.load(f"anna/x@{first.commit}"), model)


def test_a_card_in_the_bundle_is_kept_and_so_is_one_that_was_edited_on_the_hub(hub, tmp_path):
    weft.Model("random:bert-tiny", TASKS[:2], "lora").save(tmp_path / "b")
    weft.push(tmp_path / "b", "anna/x", progress=False)
    repository = hub.repositories["anna/x"]
    generated = repository.files["README.md"]
    weft.push(tmp_path / "b", "anna/x", license="mit", progress=False)  # nobody has edited it: a new one
    assert b"license: mit" in repository.files["README.md"]
    edited = generated.replace(b"## Tasks", b"## My tasks")
    repository.commit("main", {**repository.files, "README.md": edited}, "edited on the web page")
    done = weft.push(tmp_path / "b", "anna/x", message="again", progress=False)
    assert repository.files["README.md"] == edited
    assert "README.md" not in done.files
    (tmp_path / "b" / "README.md").write_bytes(generated.replace(b"## Tasks", b"## Our tasks"))
    weft.push(tmp_path / "b", "anna/x", progress=False)
    assert b"## Our tasks" in repository.files["README.md"]


def test_a_dry_run_contacts_nobody_and_its_folder_can_be_pushed(hub, run, tmp_path, monkeypatch):
    done = weft.push(run, "anna/x", with_encoder=True, dry_run=True, out=tmp_path / "staged", progress=False)
    assert (hub.seen, done.commit) == ([], None)
    staged = files_of(tmp_path / "staged")
    assert {path: len(data) for path, data in staged.items()} == done.files
    assert staged["README.md"].decode() == done.card
    weft.push(tmp_path / "staged", "anna/x", progress=False)
    uploaded = hub.repositories["anna/x"].files
    assert {path: uploaded[path] for path in staged} == staged


def test_a_bundle_that_changed_on_the_hub_meanwhile_is_not_overwritten(hub, tmp_path, monkeypatch):
    weft.Model("random:bert-tiny", TASKS[:2], "lora").save(tmp_path / "b")
    weft.push(tmp_path / "b", "anna/x", progress=False)
    repository = hub.repositories["anna/x"]
    hub.before_commit = lambda: repository.commit("main", repository.files, "by somebody else")
    with pytest.raises(weft.WeftError, match="changed by somebody else at the same time"):
        weft.push(tmp_path / "b", "anna/x", license="mit", progress=False)
    assert repository.messages[-1] == "by somebody else"


@pytest.mark.parametrize(
    ("token", "name", "message"),
    [
        (None, "anna/x", "there is no token"),
        ("hf_wrong", "anna/x", "the hub refuses your token"),
        (READER, "anna/x", "your token does not allow this"),
        ("hf_standin", "somebody/x", "your token does not allow this"),
        ("hf_standin", "nothing", "expected user/name"),
        ("hf_standin", "anna/x@v1", "a branch is named by revision"),
        ("hf_standin", "../x", "expected user/name"),
    ],
)
def test_what_cannot_be_published(hub, tmp_path, monkeypatch, token, name, message):
    address_to(monkeypatch, hub.address, tmp_path / "other", token)
    model = weft.Model("random:bert-tiny", TASKS[:1], "bitfit")
    with pytest.raises(weft.WeftError, match=message):
        weft.push(model, name, progress=False)
    assert hub.repositories == {}


def test_a_hub_out_of_order_or_out_of_reach(hub, tmp_path, monkeypatch):
    model = weft.Model("random:bert-tiny", TASKS[:1], "bitfit")
    hub.broken = True
    with pytest.raises(weft.WeftError, match="status 500"):
        weft.push(model, "anna/x", progress=False)
    address_to(monkeypatch, "http://127.0.0.1:9", tmp_path / "home")
    with pytest.raises(weft.WeftError, match=r"cannot be reached \(.*\)\n.*dry_run=True"):
        weft.push(model, "anna/x", progress=False)


def test_minilm_is_named_and_not_uploaded(hub):
    tasks = [
        weft.Task("rte", texts=("a", "b"), labels=("no", "yes")),
        weft.Task("mood", labels=("bad", "good")),
    ]
    model = scramble(weft.Model("minilm", tasks, "lora")).eval()
    weft.push(model, "anna/mini", progress=False)
    card = hub.repositories["anna/mini"].files["README.md"].decode()
    assert "base_model: sentence-transformers/all-MiniLM-L6-v2" in card
    assert "Quora" in card
    requests = [("rte", ("It rains.", "It is wet.")), ("mood", "A wonderful film.")]
    assert weft.load("anna/mini").predict(requests) == model.predict(requests)
    hub.forget()
    hub.repositories["anna/mini"].private = False
    alone = weft.load("anna/mini", tasks="mood")
    assert alone.predict([requests[1]]) == model.predict([requests[1]])
