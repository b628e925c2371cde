"""Tasks come and go while a server runs: from their files, with hashes checked, into spare slots."""

from __future__ import annotations

import shutil
import urllib.error
import urllib.request

import pytest
import torch

import weft
from tests.support.every_kind import NAMES, task_of_kind
from tests.support.near import assert_near
from tests.support.serving import REQUESTS, plain, save_every_kind, serving
from tests.support.tiny import scramble
from weft.serving.client import ServerError

FEW = ("classify", "regress", "span", "tag")


@pytest.fixture(scope="module")
def bundles(tmp_path_factory):
    """Two bundles on one encoder, the second with every kind."""
    folder = tmp_path_factory.mktemp("admin")
    return save_every_kind(folder / "few", names=FEW), save_every_kind(folder / "all")


def answers(server, names):
    requests = [(name, row) for name, row in REQUESTS if name in names]
    return [plain(answer) for answer in server.client().predict(requests)], requests


def file_of(bundle, name):
    return bundle / "tasks" / f"{name}.safetensors"


def test_a_task_of_a_known_shape_goes_into_a_spare_slot(bundles, tmp_path):
    few, _ = bundles
    model = weft.load(few)
    copy = weft.copy_task(few, "classify", few, rename="second", out=tmp_path / "copy")
    with serving(few, admin=True) as server:
        worker = server.app.engine.queue.worker
        addresses = [x.data_ptr() for x in worker.model.parameters()]
        before, _ = answers(server, FEW)
        result = server.client().put_task(file_of(copy.folder, "second"))
        assert result["replaced"] is False
        assert result["reloaded"] is False
        # in place: no graph would be captured again
        assert server.app.engine.queue.worker is worker
        assert [x.data_ptr() for x in worker.model.parameters()] == addresses
        assert answers(server, FEW)[0] == before  # bit for bit
        second = server.client().predict("second", "the cat sees")
        assert_near(plain(second) | {"task": "classify"}, model.predict("classify", "the cat sees"), 1e-6)
        assert [about["name"] for about in server.client().tasks()] == [*FEW, "second"]


@pytest.mark.slow
def test_a_task_of_a_new_shape_is_added_by_loading_again(bundles):
    few, every = bundles
    with serving(few, admin=True, spare=1) as server:
        worker = server.app.engine.queue.worker
        before, _ = answers(server, FEW)
        for name in NAMES:
            if name not in FEW:
                assert server.client().put_task(file_of(every, name))["task"]["name"] == name
        assert server.app.engine.queue.worker is not worker
        assert_near(answers(server, FEW)[0], before, 1e-5)
        added = [name for name in NAMES if name not in FEW]
        found, requests = answers(server, added)
        assert_near(found, weft.load(every).predict(requests), 1e-5)


def test_a_removed_task_is_unknown_and_its_slot_is_used_again(bundles):
    few, _ = bundles
    with serving(few, admin=True, spare=0) as server:
        client = server.client()
        whole = client.tasks()
        assert client.remove_task("classify")["removed"] == "classify"
        with pytest.raises(ServerError, match="does not exist") as caught:
            client.predict("classify", "the cat")
        assert caught.value.status == 404
        assert client.put_task(file_of(few, "classify"))["reloaded"] is False
        assert sorted(about["name"] for about in client.tasks()) == sorted(a["name"] for a in whole)
        found, requests = answers(server, FEW)
        assert_near(found, weft.load(few).predict(requests), 1e-5)


def test_the_last_task_stays(bundles, tmp_path):
    alone = save_every_kind(tmp_path, names=("classify",))
    with serving(alone, admin=True) as server, pytest.raises(ServerError, match="only task") as caught:
        server.client().remove_task("classify")
    assert caught.value.status == 409


def test_the_hash_tells_what_answered(bundles):
    few, _ = bundles
    with serving(few, admin=True) as server:
        client = server.client()
        first = client._json("GET", "/v1/tasks")["bundle"]
        removed = client.remove_task("tag")["bundle"]
        added = client.put_task(file_of(few, "tag"))["bundle"]
        assert len({first, removed}) == 2
        assert added == first


def test_files_that_do_not_belong_here_are_refused(bundles, tmp_path):
    few, every = bundles
    other = tmp_path / "other"
    encoder = every.parent / "encoder"
    tasks = [task_of_kind("classify"), task_of_kind("regress")]
    scramble(weft.Model(encoder, tasks, {"use": "lora", "rank": 3}, max_length=24)).save(other)
    bad = tmp_path / "classify.safetensors"
    good = file_of(few, "classify").read_bytes()
    cases = {
        "a different method": file_of(other, "classify").read_bytes(),
        "not a task file": b"nothing",
        "empty": b"",
        "cut short": good[: len(good) // 2],
        "another task": file_of(few, "tag").read_bytes(),
    }
    with serving(few, admin=True) as server:
        client, (before, _) = server.client(), answers(server, FEW)
        for name, contents in cases.items():
            bad.write_bytes(contents)
            with pytest.raises(ServerError) as caught:
                client.put_task(bad, "classify")
            assert caught.value.status == 422, name
            assert str(tmp_path) not in str(caught.value)
            assert "weft-serve-" not in str(caught.value), name
        for name in ("..", "a b", "x" * 300, "é"):
            with pytest.raises(ServerError):
                client.put_task(file_of(few, "classify"), name)
        assert answers(server, FEW)[0] == before


def test_not_finite_weights_are_refused(bundles, tmp_path):
    from safetensors import safe_open
    from safetensors.torch import load_file, save_file

    few, _ = bundles
    path = tmp_path / "classify.safetensors"
    tensors = load_file(file_of(few, "classify"))
    name = next(iter(tensors))
    tensors[name].view(-1)[0] = torch.nan
    with safe_open(file_of(few, "classify"), "pt") as file:
        save_file(tensors, path, file.metadata())
    with serving(few, admin=True) as server, pytest.raises(ServerError, match="NaN"):
        server.client().put_task(path)


def test_without_admin_nothing_changes(bundles):
    few, _ = bundles
    with serving(few) as server:
        for call in (lambda c: c.put_task(file_of(few, "tag")), lambda c: c.remove_task("tag")):
            with pytest.raises(ServerError) as caught:
                call(server.client())
            assert caught.value.status == 405


def test_the_served_bundle_is_never_changed(bundles, tmp_path):
    folder = shutil.copytree(bundles[0].parent, tmp_path / "copy") / "bundle"
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    with serving(folder, admin=True, encoder=str(folder.parent / "encoder")) as server:
        server.client().remove_task("tag")
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before


def test_keys(bundles):
    key, admin = "k" * 20, "a" * 20
    with serving(bundles[0], keys=(key,), admin_keys=(admin,), admin=True) as server:
        for wrong, status in ((None, 401), ("x" * 20, 403)):
            with pytest.raises(ServerError) as caught:
                server.client(wrong).predict("classify", "the cat")
            assert caught.value.status == status
        assert server.client(key).predict("classify", "the cat")["task"] == "classify"
        assert server.client(admin).predict("classify", "the cat")["task"] == "classify"
        for wrong, status in ((None, 401), (key, 403)):
            with pytest.raises(ServerError) as caught:
                server.client(wrong).remove_task("tag")
            assert caught.value.status == status
        assert server.client(admin).remove_task("tag")["removed"] == "tag"
        for path in ("/health/live", "/health/ready", "/"):
            assert urllib.request.urlopen(server.url + path).status == 200
        for path in ("/metrics", "/v1/tasks", "/openapi.json"):
            with pytest.raises(urllib.error.HTTPError, match="401"):
                urllib.request.urlopen(server.url + path)
