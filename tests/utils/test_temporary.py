"""Temporary files: names that cannot be guessed, no links, and no leftovers of killed processes."""

from __future__ import annotations

import os
import secrets
import tempfile
import time
from pathlib import Path

import pytest

from tests.support.forked import Forked, wait_for
from weft.utils import files, temporary
from weft.utils.files import new_folder, write_bytes, write_output, write_text
from weft.utils.os_lock import LocksUnsupportedError
from weft.utils.temporary import (
    create_file,
    create_folder,
    is_leftover_name,
    restore,
    scratch_folder,
    sweep_leftovers,
)


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_existing_files_and_links_are_not_opened(tmp_path, monkeypatch):
    """Even if the random part is guessed: the next one is taken."""
    words = iter(["0" * 16, "1" * 16, "2" * 16, "0" * 16, "3" * 16])
    monkeypatch.setattr(secrets, "token_hex", lambda size: next(words))
    (tmp_path / "mine").write_text("mine")
    for digit in "01":
        (tmp_path / f".x.weft-{digit * 16}").symlink_to(tmp_path / "mine")
    file, folder = create_file(tmp_path / "x"), create_folder(tmp_path / "x")
    assert [file.path.name, folder.path.name] == [".x.weft-" + "2" * 16, ".x.weft-" + "3" * 16]
    assert folder.path.stat().st_mode & 0o777 == 0o700
    file.remove()
    folder.remove()
    assert (tmp_path / "mine").read_text() == "mine"
    assert names(tmp_path) == [".x.weft-" + "0" * 16, ".x.weft-" + "1" * 16, "mine"]  # links are not weft's


def test_names_differ_and_cannot_be_guessed(tmp_path):
    made = [create_file(tmp_path / "x") for _ in range(20)]
    assert len({file.path for file in made}) == 20
    assert all(len(file.path.name) == len(".x.weft-") + 16 for file in made)
    for file in made:
        file.remove()


def test_long_names(tmp_path):
    for name in ("x" * 255, "ä" * 127):
        write_text(tmp_path / name, "text")
        assert (tmp_path / name).read_text() == "text"
        (tmp_path / name).unlink()
        with new_folder(tmp_path / name):
            pass
    assert sorted(map(len, names(tmp_path))) == [127, 255]


def test_leftovers_are_removed_and_nothing_else(tmp_path):
    """Those of killed processes; not those of living ones, nor what only looks similar."""

    def leave():
        create_file(tmp_path / "x")
        create_folder(tmp_path / "x")
        (create_folder(tmp_path / "x").path / "inner").write_text("half")
        create_file(tmp_path / "y")
        (tmp_path / "ready").touch()
        time.sleep(600)

    process = Forked(leave)
    wait_for(tmp_path / "ready")
    (tmp_path / "ready").unlink()
    kept = [".x.weft-xyz", ".x-config", ".xx.weft-", "x.weft-" + "0" * 16, ".x.lock", ".y.weft-" + "0" * 15]
    for name in kept:
        (tmp_path / name).touch()
    here = create_file(tmp_path / "x")
    sweep_leftovers(tmp_path)
    assert len(names(tmp_path)) == 5 + len(kept)
    process.kill()
    sweep_leftovers(tmp_path, "x")
    assert len([name for name in names(tmp_path) if is_leftover_name(name)]) == 2
    sweep_leftovers(tmp_path)
    assert names(tmp_path) == sorted([*kept, here.path.name])
    here.remove()
    sweep_leftovers(tmp_path / "missing")


def test_the_next_writer_of_a_target_removes_its_leftovers(tmp_path):
    def leave(kind):
        create_file(tmp_path / "x") if kind == "file" else create_folder(tmp_path / "x")
        os.kill(os.getpid(), 9)

    for kind, write in (
        ("file", lambda: write_text(tmp_path / "x", "")),
        ("folder", lambda: write_text(tmp_path / "x", "")),
    ):
        Forked(lambda kind=kind: leave(kind)).wait()
        assert len(names(tmp_path)) == 1 + (tmp_path / "x").exists()
        write()
        assert names(tmp_path) == ["x"]


def test_without_locks_only_what_is_old_is_removed(tmp_path, monkeypatch):
    def unsupported(descriptor):
        raise LocksUnsupportedError

    monkeypatch.setattr(temporary, "try_lock", unsupported)
    old, new = create_file(tmp_path / "x"), create_folder(tmp_path / "x")
    before = time.time() - 2 * temporary.ABANDONED
    os.utime(old.path, (before, before))
    sweep_leftovers(tmp_path)
    assert names(tmp_path) == [new.path.name]


def test_sweeping_while_others_create(tmp_path):
    """A new file is never taken for a leftover, in many attempts."""

    def sweep():
        while not (tmp_path / "done").exists():
            sweep_leftovers(tmp_path)

    process = Forked(sweep)
    for number in range(80):
        with new_folder(tmp_path / "x") as work:
            (work / "n").write_text(str(number))
        assert (tmp_path / "x" / "n").read_text() == str(number)
        write_text(tmp_path / "file", str(number))
        assert (tmp_path / "file").read_text() == str(number)
    (tmp_path / "done").touch()
    assert process.wait() == 0
    assert names(tmp_path) == ["done", "file", "x"]


def test_scratch_folders_of_killed_processes_are_removed(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    def leave():
        with scratch_folder("weft-test") as folder:
            (folder / "file").touch()
            os.kill(os.getpid(), 9)

    Forked(leave).wait()
    assert len(names(tmp_path)) == 1
    with scratch_folder("weft-test") as folder:
        assert names(tmp_path) == [folder.name]
    assert names(tmp_path) == []


@pytest.mark.parametrize("at", [1, 2, 3])
def test_a_kill_between_renames_loses_no_folder(tmp_path, monkeypatch, at):
    """Where two folders cannot be exchanged in one step, as on NFS."""
    monkeypatch.setattr(files.ctypes, "CDLL", lambda *a, **k: (_ for _ in ()).throw(OSError()))
    target = tmp_path / "x"
    with new_folder(target) as work:
        (work / "state").write_text("old")
    count, replace = iter(range(1, 9)), os.replace

    def killing(a, b):
        if next(count) == at:
            os.kill(os.getpid(), 9)
        replace(a, b)

    def write():
        os.replace = killing
        with new_folder(target) as work:
            (work / "state").write_bytes(b"new")

    assert Forked(write).wait() == -9
    restore(target)
    assert (target / "state").read_text() == ("new" if at == 3 else "old")
    with new_folder(target) as work:
        (work / "state").write_text("newer")
    assert (target / "state").read_text() == "newer"
    assert names(tmp_path) == ["x"]


def test_a_new_file_does_not_replace_one_that_appears_meanwhile(tmp_path, monkeypatch):
    write_bytes(tmp_path / "x", b"1", replace=False)
    with pytest.raises(FileExistsError):
        write_bytes(tmp_path / "x", b"2", replace=False)
    monkeypatch.setattr(os, "link", lambda *a: (_ for _ in ()).throw(PermissionError(1, "no links here")))
    with pytest.raises(FileExistsError):
        write_bytes(tmp_path / "x", b"2", replace=False)
    write_bytes(tmp_path / "y", b"2", replace=False)
    assert [(tmp_path / name).read_bytes() for name in "xy"] == [b"1", b"2"]
    assert names(tmp_path) == ["x", "y"]


def test_links_of_a_user_stay_and_devices_are_written_to(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "real")
    write_output(tmp_path / "link", "text")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_text() == "text"
    write_text(tmp_path / "link", "other")  # not a name that a user has chosen: never through a link
    assert not (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_text() == "text"
    write_output(Path(os.devnull), "text")
    assert not Path(os.devnull).is_file()
    (tmp_path / "folder").mkdir()
    (tmp_path / "to").symlink_to(tmp_path / "folder")
    with new_folder(tmp_path / "to") as work:
        (work / "file").touch()
    assert (tmp_path / "to").is_symlink()
    assert names(tmp_path / "folder") == ["file"]
