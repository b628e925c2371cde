"""Links, named pipes and devices in folders of strangers."""

from __future__ import annotations

import os
import socket

import pytest

from weft.errors import WeftError
from weft.utils.plain_files import check_plain_entries, check_plain_folder, check_plain_top


@pytest.fixture
def folder(tmp_path):
    """A folder of plain files, with a subfolder."""
    (tmp_path / "folder" / "tasks").mkdir(parents=True)
    for name in ("bundle.json", "tasks/a.safetensors"):
        (tmp_path / "folder" / name).write_text("x")
    (tmp_path / "secret.txt").write_text("key")
    return tmp_path / "folder"


def hub_snapshot(tmp_path, files):
    """A snapshot of the hub's cache: a folder of links to blobs."""
    repository = tmp_path / "hub" / "models--org--name"
    snapshot = repository / "snapshots" / "0123abc"
    for number, name in enumerate(files):
        blob = repository / "blobs" / f"{number:040x}"
        blob.parent.mkdir(parents=True, exist_ok=True)
        blob.write_text(name)
        (snapshot / name).parent.mkdir(parents=True, exist_ok=True)
        (snapshot / name).symlink_to(os.path.relpath(blob, (snapshot / name).parent))
    return snapshot


def test_plain_files_pass_and_the_folder_itself_may_be_a_link(folder, tmp_path):
    check_plain_folder(folder, "a bundle")
    check_plain_top(folder, "an encoder")
    (tmp_path / "link").symlink_to(folder)
    check_plain_folder(tmp_path / "link", "a bundle")
    check_plain_top(tmp_path / "link", "an encoder")


@pytest.mark.parametrize("place", ["extra", "tasks/extra"])
@pytest.mark.parametrize("target", ["secret.txt", ".", "folder", "nothing", "/dev/zero"])
def test_a_link_is_refused_and_named(folder, tmp_path, place, target):
    (folder / place).symlink_to(tmp_path / target)
    with pytest.raises(
        WeftError, match=f"{place} is a link to .*; weft does not follow links out of a bundle"
    ):
        check_plain_folder(folder, "a bundle")


def test_two_links_to_their_own_folder_end_at_once(folder):
    for name in ("one", "two"):
        (folder / name).symlink_to(".")
    with pytest.raises(WeftError, match="one is a link to"):
        check_plain_folder(folder, "a bundle")


def test_links_in_a_circle(folder):
    (folder / "one").symlink_to("two")
    (folder / "two").symlink_to("one")
    with pytest.raises(WeftError, match="one"):
        check_plain_folder(folder, "a bundle")
    with pytest.raises(WeftError, match="one"):
        check_plain_top(folder, "an encoder")


@pytest.mark.parametrize("check", [check_plain_folder, check_plain_top])
def test_a_named_pipe_and_a_socket_are_refused(folder, check, monkeypatch):
    os.mkfifo(folder / "weights")
    with pytest.raises(
        WeftError, match=r"weights is a named pipe; the files of a bundle must be plain files"
    ):
        check(folder, "a bundle")
    (folder / "weights").unlink()
    monkeypatch.chdir(folder)  # the path of a socket must be short
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("weights")
        with pytest.raises(WeftError, match="weights is a socket"):
            check(folder, "a bundle")


def test_the_links_of_the_hubs_cache_are_followed(tmp_path):
    snapshot = hub_snapshot(tmp_path, ["config.json", "model.safetensors", "1_Pooling/config.json"])
    check_plain_folder(snapshot, "a bundle")
    check_plain_top(snapshot, "an encoder", ("1_Pooling",))
    (snapshot / "vocab.txt").symlink_to(tmp_path)
    with pytest.raises(WeftError, match=r"vocab\.txt is a link"):
        check_plain_folder(snapshot, "a bundle")


def test_a_blob_that_is_missing_or_no_file_is_refused(tmp_path):
    snapshot = hub_snapshot(tmp_path, ["config.json"])
    blob = (snapshot / "config.json").resolve()
    blob.unlink()
    with pytest.raises(WeftError, match=r"config\.json is a link"):
        check_plain_top(snapshot, "an encoder")
    os.mkfifo(blob)
    with pytest.raises(WeftError, match=r"config\.json is a link"):
        check_plain_top(snapshot, "an encoder")


def test_the_top_of_a_folder_may_link_to_its_own_files_and_have_any_subfolders(folder, tmp_path):
    (folder / "same").symlink_to("bundle.json")
    (folder / "tasks" / "anything").symlink_to(tmp_path / "secret.txt")
    (folder / "data").symlink_to(tmp_path)
    check_plain_top(folder, "an encoder")
    with pytest.raises(WeftError, match="anything is a link"):
        check_plain_top(folder, "an encoder", ("tasks",))
    with pytest.raises(WeftError, match="data is a link"):
        check_plain_top(folder, "an encoder", ("data",))


def test_some_entries_alone(folder, tmp_path):
    (folder / "notes").symlink_to(tmp_path)
    check_plain_entries(folder, ("bundle.json", "tasks", "not there"), "a run")
    (folder / "log.jsonl").symlink_to(tmp_path / "not there either")
    with pytest.raises(WeftError, match=r"log\.jsonl is a link"):
        check_plain_entries(folder, ("log.jsonl",), "a run")


def test_a_folder_that_cannot_be_read(tmp_path):
    with pytest.raises(WeftError, match="cannot be read"):
        check_plain_folder(tmp_path / "nothing", "a bundle")
