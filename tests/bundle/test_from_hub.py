"""Bundles from the hub: which bytes are fetched, what wins, and what is refused."""

from __future__ import annotations

import json

import pytest
import torch

import weft
from tests.support.hub import stand_in
from tests.support.hub_client import address_to, files_of
from tests.support.more import some_of
from tests.support.tiny import TASKS, batch, scramble
from tests.support.tiny_run import save_encoder
from weft.bundle import from_hub
from weft.bundle.from_hub import is_bundle_file
from weft.bundle.manifest import find_bundle
from weft.utils.checksums import sealed


@pytest.fixture(scope="module")
def server():
    with stand_in() as hub:
        yield hub


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    """A bundle with its encoder, and its model."""
    folder = tmp_path_factory.mktemp("bundle")
    model = weft.Model(save_encoder(folder / "e"), TASKS, {"use": "lora", "rank": 2}, max_length=24)
    scramble(model).eval().save(folder / "b", with_encoder=True)
    return folder / "b"


@pytest.fixture
def hub(server, monkeypatch, tmp_path, bundle):
    """The server with the bundle as anna/x; the folder that tests run in has no folder of this name."""
    address_to(monkeypatch, server.address, tmp_path / "home", None)
    server.clear()
    server.put("anna/x", files_of(bundle))
    monkeypatch.chdir(tmp_path)
    return server


def logits(model):
    inputs = batch(model)
    inputs["task"] = torch.full((8,), model.task_id("b"))
    with torch.no_grad():
        return torch.stack(list(model.run(**inputs).logits))


def test_one_task_alone_fetches_only_its_bytes(hub, bundle):
    alone = weft.load("anna/x", tasks=["b"])
    sizes = {path: len(data) for path, data in files_of(bundle).items()}
    needed = {"bundle.json", "shared.safetensors", "tasks/b.safetensors"}
    needed |= {path for path in sizes if path.startswith("encoder/")}
    assert hub.fetched() == {path: sizes[path] for path in needed}
    assert [task.name for task in alone.tasks] == ["b"]
    assert torch.equal(logits(alone), logits(weft.load(bundle)))
    hub.forget()
    weft.load("anna/x", tasks=["b"])  # the second time nothing
    assert hub.fetched() == {}
    weft.load("anna/x")  # the rest
    assert set(hub.fetched()) == {f"tasks/{name}.safetensors" for name in "acd"}


def test_an_encoder_that_is_not_included_is_not_fetched_as_part_of_the_bundle(hub, tmp_path):
    model = scramble(weft.Model("random:bert-tiny", TASKS[:2], "lora"))
    model.save(tmp_path / "small")
    hub.put("anna/small", files_of(tmp_path / "small"))
    weft.load("anna/small", tasks="a")
    assert set(hub.fetched()) == {"bundle.json", "shared.safetensors", "tasks/a.safetensors"}


def test_an_existing_folder_wins(hub, tmp_path, bundle):
    other = scramble(weft.Model("random:bert-tiny", TASKS[:1], "bitfit"))
    other.save(tmp_path / "anna" / "x")
    assert len(weft.load("anna/x").tasks) == 1
    (tmp_path / "bert" / "x").mkdir(parents=True)
    with pytest.raises(weft.WeftError, match="holds no bundle"):
        weft.load("bert/x")
    assert hub.seen == []


def test_what_was_fetched_is_there_without_the_hub(hub, monkeypatch, tmp_path):
    weft.load("anna/x", tasks=["b"])
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    hub.forget()
    assert len(weft.load("anna/x", tasks=["b"]).tasks) == 1
    with pytest.raises(
        weft.WeftError, match=r"tasks/a.safetensors is not in the cache.*HF_HUB_OFFLINE is set"
    ):
        weft.load("anna/x")
    with pytest.raises(weft.WeftError, match=r"anna/y holds no bundle: .*HF_HUB_OFFLINE is set"):
        weft.load("anna/y")
    assert hub.seen == []


def test_a_hub_out_of_reach_is_reported(hub, monkeypatch, tmp_path):
    weft.load("anna/x", tasks=["b"])
    monkeypatch.setattr("weft.utils.hub._answers", {})
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", "http://127.0.0.1:9")
    assert len(weft.load("anna/x", tasks=["b"]).tasks) == 1
    with pytest.raises(weft.WeftError, match=r"anna/y holds no bundle: .*cannot be reached .*\n.*network"):
        weft.load("anna/y")


def test_a_hub_out_of_order_leaves_the_cache(hub, capsys):
    weft.load("anna/x")
    hub.broken = True
    assert len(weft.load("anna/x").tasks) == 4
    assert "the copy in the cache is used" in capsys.readouterr().err
    with pytest.raises(weft.WeftError, match="status 500"):
        weft.load("anna/y")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("anna/y", "no such repository, or it is private"),
        ("anna/x@v9", "it has no revision 'v9'"),
        ("anna/card", "is not a bundle of weft"),
        ("anna/closed", "or it is private\n.*log in"),
    ],
)
def test_what_is_not_there(hub, name, message):
    hub.put("anna/card", {"README.md": b"a card"})
    hub.put("anna/closed", {"bundle.json": b"{}"}).private = True
    with pytest.raises(weft.WeftError, match=message):
        weft.load(name)


def test_an_unknown_task_is_refused_before_anything_else_is_fetched(hub):
    with pytest.raises(weft.WeftError, match=r"anna/x has no task 'e'; .*known: a, b, c, d"):
        weft.load("anna/x", tasks=["e"])
    assert set(hub.fetched()) == {"bundle.json"}


def changed(contents, /, **values):
    """A bundle's files with other values in bundle.json, which is sealed again, as a stranger would do it."""
    manifest = json.loads(contents["bundle.json"])
    return {**contents, "bundle.json": json.dumps(sealed({**manifest, **values})).encode()}


def with_listed(files, name):
    manifest = json.loads(files["bundle.json"])
    return changed(files, files={**manifest["files"], name: "0" * 64})


HOSTILE = {
    "a pickle beside it": (lambda f: {**f, "tasks/x.pkl": b"\x80"}, "a pickle, which could run code"),
    "pickled weights": (lambda f: {**f, "encoder/pytorch_model.bin": b"\x80"}, "a pickle"),
    "a pickle that is listed": (lambda f: with_listed(f, "encoder/model.pkl"), "not the name of a file"),
    "a listed path outside": (lambda f: with_listed(f, "../../outside.json"), "not the name of a file"),
    "a path outside inside": (lambda f: with_listed(f, "encoder/../../x.json"), "not the name of a file"),
    "an absolute path": (lambda f: with_listed(f, "/etc/passwd"), "not the name of a file"),
    "a hidden file": (lambda f: with_listed(f, "encoder/.secret.json"), "not the name of a file"),
    "code": (lambda f: with_listed(f, "encoder/modeling.py"), "not the name of a file"),
    "a task outside": (lambda f: changed(f, tasks=["../../x"]), "is not the name of a task"),
    "no tasks": (lambda f: changed(f, tasks="a"), "no list of tasks"),
    "other weights": (
        lambda f: {**f, "tasks/b.safetensors": f["tasks/a.safetensors"]},
        "damaged or was replaced",
    ),
    "an edited manifest": (
        lambda f: {**f, "bundle.json": f["bundle.json"].replace(b'"seed": 0', b'"seed": 7')},
        "damaged or was edited",
    ),
    "a changed tokenizer": (lambda f: {**f, "encoder/tokenizer.json": b"{}"}, "damaged or was replaced"),
    "a missing task": (
        lambda f: {path: data for path, data in f.items() if path != "tasks/b.safetensors"},
        "tasks/b.safetensors is missing",
    ),
    "no JSON": (lambda f: {**f, "bundle.json": b"\x00"}, "is not JSON"),
    "deep JSON": (lambda f: {**f, "bundle.json": b"[" * 5000 + b"]" * 5000}, "levels deep|not JSON"),
}


@pytest.mark.parametrize("case", some_of(HOSTILE, 8))
def test_a_damaged_or_hostile_repository_is_refused(hub, bundle, tmp_path, case):
    change, message = HOSTILE[case]
    hub.put("anna/bad", change(files_of(bundle)))
    before = set(tmp_path.rglob("*"))
    with pytest.raises(weft.WeftError, match=message):
        weft.load("anna/bad")
    home = tmp_path / "home"
    assert all(home in path.parents for path in set(tmp_path.rglob("*")) - before)
    fetched = hub.fetched()
    assert all(is_bundle_file(path) for path in fetched)


def test_large_files_are_not_fetched(hub, bundle, monkeypatch):
    monkeypatch.setenv(from_hub.VARIABLE, "1000")
    with pytest.raises(weft.WeftError, match=f"at most 1.0 kB are fetched\n.*{from_hub.VARIABLE}"):
        weft.load("anna/x")
    assert set(hub.fetched()) == {"bundle.json"}
    monkeypatch.delenv(from_hub.VARIABLE)
    monkeypatch.setattr(from_hub, "LARGEST", 100)
    with pytest.raises(weft.WeftError, match=r"bundle.json has .* bytes; expected at most 100"):
        weft.load("anna/x")


def test_a_bundle_of_the_hub_is_not_changed(hub):
    folder = find_bundle("anna/x")
    before = files_of(folder)
    with pytest.raises(
        weft.WeftError, match=r"loaded from the hub and cannot be changed.*\n.*hf download anna/x"
    ):
        weft.remove_task("anna/x", "a", folder)
    assert files_of(folder) == before


def test_a_bundle_of_the_hub_can_be_the_start_of_a_new_one(hub, tmp_path):
    weft.remove_task("anna/x", "a", tmp_path / "less")
    assert [task.name for task in weft.load(tmp_path / "less").tasks] == ["b", "c", "d"]
    assert not any(path.is_symlink() for path in (tmp_path / "less").rglob("*"))


def test_a_run_may_start_from_a_bundle_of_the_hub(hub, bundle, tmp_path):
    (tmp_path / "run.yaml").write_text(
        f"encoder: {bundle / 'encoder'}\nstart: anna/x\nmethod: {{use: lora, rank: 2}}\n"
        "tasks: {a: {labels: ['no', 'yes'], train: a.jsonl, validation: a.jsonl}}\n"
    )
    (tmp_path / "a.jsonl").write_text('{"text": "the cat", "label": "no"}\n')
    assert weft.load_run(tmp_path / "run.yaml").start == "anna/x"
    model = weft.Model(bundle / "encoder", TASKS[:1], {"use": "lora", "rank": 2}, max_length=24)
    weft.start_from(model, "anna/x")
    there = weft.load(bundle, tasks="a").state_dict()
    assert all(torch.equal(value, there[key]) for key, value in model.state_dict().items())
    (tmp_path / "anna" / "x").mkdir(parents=True)
    assert weft.load_run(tmp_path / "run.yaml").start == str(tmp_path / "anna" / "x")


def test_a_bundle_of_an_earlier_version_lists_no_files(hub, bundle):
    files = files_of(bundle)
    manifest = {k: v for k, v in json.loads(files["bundle.json"]).items() if k not in ("files", "sha256")}
    hub.put("anna/old", {**files, "bundle.json": json.dumps(manifest).encode(), "README.md": b"x"})
    assert torch.equal(logits(weft.load("anna/old")), logits(weft.load(bundle)))
    assert "README.md" not in hub.fetched()


@pytest.mark.parametrize(
    ("path", "is_one"),
    [
        ("bundle.json", True),
        ("shared.safetensors", True),
        ("tasks/rte-2.safetensors", True),
        ("tasks/a/b.safetensors", False),
        ("tasks/.safetensors", False),
        ("tasks/a.bin", False),
        ("encoder/model-00001-of-00002.safetensors", True),
        ("encoder/spm.model", True),
        ("encoder/1_Pooling/config.json", True),
        ("encoder/a/b/c.json", False),
        ("encoder/x\n.json", False),
        ("README.md", False),
        ("run.yaml", False),
        ("", False),
    ],
)
def test_the_names_of_a_bundle(path, is_one):
    assert is_bundle_file(path) is is_one
