"""Locks on file systems without locks: the record of the holder decides."""

from __future__ import annotations

import os
import shutil
import time
from dataclasses import replace

import pytest

from tests.support.forked import Forked, wait_for
from weft.utils.lock import locked
from weft.utils.lock_file import LockHeld
from weft.utils.lock_holder import Holder
from weft.utils.os_lock import LocksUnsupportedError


@pytest.fixture
def path(tmp_path, monkeypatch):
    """A lock on a file system that has none; the folder for temporary files still has them."""

    def unsupported(descriptor):
        raise LocksUnsupportedError

    monkeypatch.setattr("weft.utils.lock_file.try_lock", unsupported)
    folder = tmp_path / "folder"
    folder.mkdir()
    return folder / ".x.weft-lock"


def take(path, wait=0.0):
    return locked(path, path, doing="test", wait=wait)


def record_of(path):
    return path.with_name(f"{path.name}.held")


def test_processes_exclude_each_other(path, tmp_path):
    number = tmp_path / "number"
    number.write_text("0")

    def add():
        for _ in range(25):
            with take(path, wait=60.0):
                number.write_text(str(int(number.read_text()) + 1))

    processes = [Forked(add) for _ in range(6)]
    assert [process.wait() for process in processes] == [0] * 6
    assert number.read_text() == "150"
    assert list(path.parent.iterdir()) == []


@pytest.mark.slow
def test_the_record_of_a_killed_process_is_removed_by_one_of_many(path, tmp_path):
    def hold():
        with take(path):
            (tmp_path / "ready").touch()
            time.sleep(600)

    def count():
        with take(path, wait=60.0):
            assert not (tmp_path / "inside").exists()
            (tmp_path / "inside").touch()
            time.sleep(0.005)
            (tmp_path / "inside").unlink()

    for _ in range(5):
        process = Forked(hold)
        wait_for(tmp_path / "ready")
        (tmp_path / "ready").unlink()
        with pytest.raises(LockHeld, match=f"process {process.process} on "), take(path):
            pass
        process.kill()
        assert record_of(path).exists()
        assert [other.wait() for other in [Forked(count) for _ in range(6)]] == [0] * 6
    assert list(path.parent.iterdir()) == []


@pytest.mark.parametrize("change", [{"started": "1"}, {"process": 1 << 22}])
def test_records_of_ended_processes(path, change):
    record_of(path).write_text(replace(Holder.current("test", record_of(path)), **change).text())
    with take(path):
        assert Holder.parse(record_of(path).read_text()).process == os.getpid()
    assert list(path.parent.iterdir()) == []


def test_the_record_of_another_machine_stays(path):
    text = replace(Holder.current("weft train", path), host="elsewhere", process=7).text()
    record_of(path).write_text(text)
    with pytest.raises(LockHeld) as told, take(path):
        pass
    assert "process 7 on elsewhere (weft train, since " in str(told.value)
    assert f"if it no longer runs, delete {record_of(path)}" in str(told.value)
    assert record_of(path).read_text() == text
    record_of(path).unlink()
    with take(path):
        pass


def test_a_record_that_cannot_be_read_stays(path):
    record_of(path).touch()
    expected = r"another process is writing(.|\n)*if it no longer runs, delete"
    with pytest.raises(LockHeld, match=expected), take(path):
        pass


def test_a_copied_folder_is_not_locked(path, tmp_path):
    with take(path) as lock:
        shutil.copytree(path.parent, tmp_path / "copy")
        with take(tmp_path / "copy" / path.name):
            assert not lock.lost()
    assert list((tmp_path / "copy").iterdir()) == []


def test_without_second_names(path, monkeypatch):
    def refuse(*names):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    with take(path) as lock:
        assert lock.holder().process == os.getpid()

        def other():
            with pytest.raises(LockHeld), take(path):
                pass

        assert Forked(other).wait() == 0
    assert list(path.parent.iterdir()) == []


def test_the_lock_follows_a_folder_that_replaces_its_own(path, tmp_path):
    with take(path) as lock:
        (tmp_path / "new").mkdir()
        lock.follow(tmp_path / "new")
        path.parent.rename(tmp_path / "old")
        (tmp_path / "new").rename(path.parent)
        assert not lock.lost()
    assert list(path.parent.iterdir()) == []


def test_hosts_that_mount_the_same_folder_with_and_without_locks(path, monkeypatch):
    elsewhere = replace(Holder.current("weft train", path), host="elsewhere", process=7).text()
    path.write_text(elsewhere)  # held by a host with locks
    with pytest.raises(LockHeld, match="process 7 on elsewhere"), take(path):
        pass
    assert path.read_text() == elsewhere
    path.unlink()
    monkeypatch.undo()
    record_of(path).write_text(elsewhere)  # held by a host without
    with pytest.raises(LockHeld, match=r"process 7 on elsewhere(.|\n)*delete .*\.held"), take(path):
        pass
    record_of(path).unlink()
    with take(path):
        pass
