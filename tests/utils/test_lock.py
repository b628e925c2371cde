"""One writer at a time: processes, threads, killed processes, and what others are told."""

from __future__ import annotations

import os
import socket
import threading
import time
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.support.forked import Forked, wait_for
from weft.errors import WeftError
from weft.utils import lock as locking
from weft.utils.lock import beside, held, locked, timeout
from weft.utils.lock_file import LockHeld
from weft.utils.temporary import sweep_leftovers


def holding(path, tmp_path, also=lambda: None):
    """A process that holds a lock until it is killed."""

    def hold():
        with locked(path, path, doing="weft train"):
            also()
            (tmp_path / "ready").touch()
            time.sleep(600)

    process = Forked(hold)
    wait_for(tmp_path / "ready")
    (tmp_path / "ready").unlink()
    return process


@pytest.fixture
def path(tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    return folder / ".x.weft-lock"


def test_a_second_process_is_told_who_writes(path, tmp_path):
    process = holding(path, tmp_path)
    with pytest.raises(LockHeld) as told, locked(path, "runs/x", doing="test", wait=0.0, advice="stop it"):
        pass
    assert f"process {process.process} on {socket.gethostname()} (weft train, since " in str(told.value)
    assert "is writing to runs/x\n  stop it" in str(told.value)
    process.kill()


def test_a_killed_process_holds_nothing(path, tmp_path):
    holding(path, tmp_path).kill()
    assert path.exists()
    with locked(path, path, doing="test", wait=0.0) as lock:
        assert lock.holder().process == os.getpid()
    assert list(path.parent.iterdir()) == []


def test_waiting_ends_when_the_other_one_ends(path, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(locking, "FIRST_NOTE", 0.0)

    def hold():
        with locked(path, path, doing="weft task copy"):
            (tmp_path / "ready").touch()
            time.sleep(0.3)

    process = Forked(hold)
    wait_for(tmp_path / "ready")
    with locked(path, "bundles/b", doing="test"):
        assert process.wait() == 0
    told = capsys.readouterr().err
    assert f"note: waiting for process {process.process} on " in told
    assert "(weft task copy, since " in told
    assert "which writes to bundles/b" in told


def test_waiting_has_an_end(path, tmp_path, monkeypatch):
    process = holding(path, tmp_path)
    monkeypatch.setenv("WEFT_LOCK_TIMEOUT", "0.05")
    expected = r"after 0\.05 seconds of waiting(.|\n)*WEFT_LOCK_TIMEOUT"
    with pytest.raises(LockHeld, match=expected), locked(path, path, doing="test"):
        pass
    process.kill()
    for wrong in ("soon", "-1", "nan"):
        monkeypatch.setenv("WEFT_LOCK_TIMEOUT", wrong)
        with pytest.raises(WeftError, match=f"WEFT_LOCK_TIMEOUT is '{wrong}'; expected a number of seconds"):
            timeout()
    monkeypatch.delenv("WEFT_LOCK_TIMEOUT")
    assert timeout() == 600


def test_many_writers_lose_nothing(path, tmp_path):
    """Each adds 1 to a number many times; the lock's file is created and deleted each time."""
    number = tmp_path / "number"
    number.write_text("0")

    def add():
        for _ in range(40):
            with locked(path, path, doing="test"):
                number.write_text(str(int(number.read_text()) + 1))

    processes = [Forked(add) for _ in range(6)]
    threads = [threading.Thread(target=add) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [process.wait() for process in processes] == [0] * 6
    assert number.read_text() == str(9 * 40)
    assert list(path.parent.iterdir()) == []


def test_a_thread_may_lock_again_and_another_may_not(path):
    told = []

    def other():
        try:
            with locked(path, path, doing="test", wait=0.0):
                told.append("")
        except LockHeld as wrong:
            told.append(str(wrong))

    with locked(path, path, doing="test") as lock:
        with locked(path, path, doing="test", wait=0.0) as again:
            assert again is lock
            assert held(path) is lock
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
        assert held(path) is lock
    assert held(path) is None
    assert len(told) == 1
    assert told[0].startswith(f"a different thread of this process (process {os.getpid()} on ")


def test_a_fork_does_not_keep_the_lock_of_a_killed_process(path, tmp_path):
    def fork():
        if os.fork() == 0:
            (tmp_path / "child").write_text(str(os.getpid()))
            time.sleep(600)

    process = holding(path, tmp_path, fork)
    wait_for(tmp_path / "child")
    process.kill()
    with locked(path, path, doing="test", wait=0.0):
        pass
    while not (child := (tmp_path / "child").read_text()):
        time.sleep(0.002)
    os.kill(int(child), 9)


def test_a_fork_that_ends_gives_back_nothing(path):
    with ExitStack() as stack:
        lock = stack.enter_context(locked(path, path, doing="test"))

        def leave():
            stack.close()
            lock.release()
            with pytest.raises(LockHeld), locked(path, path, doing="test", wait=0.0):
                pass

        assert Forked(leave).wait() == 0
        assert not lock.lost()
    assert list(path.parent.iterdir()) == []


def test_what_is_no_lock_is_not_opened(path, tmp_path):
    (tmp_path / "mine").write_text("mine")
    path.symlink_to(tmp_path / "mine")
    for make in (lambda: None, path.mkdir, lambda: os.mkfifo(path)):
        make()
        expected = "is not a file; weft keeps a lock of this name"
        with pytest.raises(WeftError, match=expected), locked(path, path, doing="test"):
            pass
        path.rmdir() if path.is_dir() else path.unlink()
    assert (tmp_path / "mine").read_text() == "mine"


def test_folders_are_removed_again_unless_something_was_written(tmp_path):
    with locked(tmp_path / "a" / "b" / ".weft-lock", "b", doing="test"):
        assert (tmp_path / "a" / "b").is_dir()
    assert list(tmp_path.iterdir()) == []
    with locked(tmp_path / "a" / "b" / ".weft-lock", "b", doing="test"):
        (tmp_path / "a" / "x").touch()
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["x"]


def test_a_lock_that_was_deleted_or_replaced_is_lost(path, tmp_path):
    with locked(path, path, doing="test") as lock:
        assert not lock.lost()
        path.unlink()
        assert lock.lost()
        path.touch()
        assert lock.lost()
    assert path.exists()  # it is not the file of this lock


def test_the_lock_follows_a_folder_that_replaces_its_own(tmp_path):
    old, new = tmp_path / "x", tmp_path / "y"
    old.mkdir()
    new.mkdir()
    with locked(old / ".weft-lock", old, doing="test") as lock:
        lock.follow(new)
        old.rename(tmp_path / "z")
        new.rename(old)
        assert not lock.lost()

        def refused():
            with pytest.raises(LockHeld), locked(old / ".weft-lock", old, doing="test", wait=0.0):
                pass

        assert Forked(refused).wait() == 0
    assert not (old / ".weft-lock").exists()


def test_paths_that_mean_the_same_folder_have_one_lock(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    assert beside(tmp_path / "link") == beside(tmp_path / "real") == tmp_path / ".real.weft-lock"
    assert beside(tmp_path / "x" / ".." / "real") == beside(tmp_path / "real")
    assert len(beside(tmp_path / ("ä" * 120)).name.encode()) < 255


@pytest.mark.skipif(not hasattr(os, "setuid") or os.getuid() != 0, reason="needs two users")
@pytest.mark.parametrize("living", [True, False])
def test_the_lock_of_a_different_user(path, tmp_path, living):
    """That of a living process is held; that of a killed one is free, although it cannot be written."""
    path.parent.chmod(0o777)
    process = holding(path, tmp_path)
    path.chmod(0o644)
    if not living:
        process.kill()

    def other():
        os.setuid(65534)
        if living:
            with pytest.raises(LockHeld, match=f"process {process.process} on "):
                lock()
        else:
            lock()

    def lock():
        with locked(path, path, doing="test", wait=0.0) as mine:
            assert mine.holder().process == os.getpid()

    before = [(folder, folder.stat().st_mode) for folder in tmp_path.parents if folder != folder.parent]
    tmp_path.chmod(0o711)
    for folder, mode in before:
        folder.chmod(mode | 0o711)
    try:
        assert Forked(other).wait() == 0
    finally:
        for folder, mode in before:
            folder.chmod(mode)
    assert path.exists() == living
    if living:
        process.kill()


def test_looking_for_leftovers_does_not_refuse_a_writer(path, tmp_path):
    """A sweep takes each lock for a moment: a writer that is refused at once must not be refused by it."""

    def sweep():
        while not (tmp_path / "done").exists():
            sweep_leftovers(path.parent)

    processes = [Forked(sweep) for _ in range(2)]
    for _ in range(150):
        with locked(path, path, doing="test", wait=0.0) as lock:
            assert not lock.lost()
    (tmp_path / "done").touch()
    assert [process.wait() for process in processes] == [0, 0]


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="needs a folder that exists and takes no file")
def test_a_folder_that_takes_no_file_is_refused_at_once():
    """It was tried again without end: opening says that there is no such folder, and there is one."""
    with pytest.raises((WeftError, OSError)), locked(Path("/proc/x.lock"), "/proc/x", doing="weft export"):
        pytest.fail("nothing can be written there")
