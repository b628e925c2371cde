"""One writer per bundle: commands at once give what they give in turn; readers see whole bundles."""

from __future__ import annotations

import os
import threading

import pytest

import weft
from tests.support import bundle_writers
from tests.support.apart import LORA
from tests.support.fork_server import context
from tests.support.forked import Forked
from tests.support.more import some_of
from tests.support.tiny import TASKS
from weft.bundle.manifest import find_bundle, read_bundle
from weft.bundle.one_task import hashes
from weft.bundle.writing import changing_task, writing_bundle
from weft.errors import WeftError
from weft.utils import files
from weft.utils.files import new_folder
from weft.utils.lock_file import LockHeld

A, B, C, D = TASKS


def names_of(bundle):
    return list(read_bundle(find_bundle(bundle))[1])


@pytest.mark.slow
@pytest.mark.parametrize(("processes", "copies"), some_of([(2, 2), (3, 2), (8, 4)], 1))
def test_every_copy_of_many_processes_arrives(make, tmp_path, processes, copies):
    source, target = make("source", [A, B]), make("target", [C])
    running = [
        context.Process(target=bundle_writers.copies, args=(str(source), str(target), number, copies))
        for number in range(processes)
    ]
    for process in running:
        process.start()
    # a reader in the meantime sees the tasks of one moment, and can load them
    seen = [1]
    while any(process.is_alive() for process in running):
        model = weft.load(target)
        names = names_of(target)
        assert [task.name for task in model.tasks] == names[: len(model.tasks)]
        seen.append(len(names))
    for process in running:
        process.join()
    assert [process.exitcode for process in running] == [0] * processes
    assert seen == sorted(seen)
    expected = {f"p{number}n{copy}" for number in range(processes) for copy in range(copies)} | {"c"}
    assert {task.name for task in weft.load(target).tasks} == expected
    assert {path.name for path in target.parent.iterdir()} == {"source", "target"}


def test_threads_are_writers_of_their_own(make):
    source, target = make("source", [A, B]), make("target", [C])
    failed = []

    def copy(number):
        try:
            weft.copy_task(source, "a", target, rename=f"t{number}")
        except BaseException as wrong:
            failed.append(wrong)

    threads = [threading.Thread(target=copy, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    assert set(names_of(target)) == {"c", "t0", "t1", "t2", "t3"}


def test_a_task_that_is_being_changed_is_refused_at_once(make):
    bundle = make("bundle", [A, B])

    def refused():
        for change in (
            lambda: weft.copy_task(bundle, "a", bundle, rename="new"),
            lambda: weft.copy_task(bundle, "a", bundle, rename="new", out=bundle.with_name("out")),
        ):
            with pytest.raises(LockHeld, match="set a different out"):
                change()
        with changing_task(bundle, bundle, "b", "test"):
            pass

    with (
        changing_task(bundle, bundle, "new", "weft task add"),
        changing_task(bundle, bundle.with_name("out"), "x", "weft task add"),
    ):
        assert Forked(refused).wait() == 0
    weft.copy_task(bundle, "a", bundle, rename="new")


def test_odd_names_of_tasks_make_no_odd_paths(make, tmp_path):
    bundle = make("bundle", [A, B])
    before = sorted(tmp_path.iterdir())
    for name in ("../../x", "x/y", "", "x" * 300):
        with pytest.raises(WeftError, match="has no task"):
            weft.remove_task(bundle, name, bundle)
    assert sorted(tmp_path.iterdir()) == before


def test_the_locks_file_is_not_part_of_the_bundle(make, tmp_path):
    bundle = make("bundle", [A, B])
    before = hashes(bundle)
    with writing_bundle(bundle, "test"):
        assert (tmp_path / ".bundle.weft-lock").exists()
        assert hashes(bundle) == before
        weft.load(bundle)
        weft.copy_task(bundle, "a", tmp_path / "bundle", rename="e", out=tmp_path / "copy")
    assert {path.name for path in tmp_path.iterdir()} == {"bundle", "copy"}


def test_a_bundle_is_also_locked_by_way_of_a_link_or_its_run(make, tmp_path):
    run = tmp_path / "run"
    run.mkdir()
    bundle = make("run/bundle", [A, B])
    (tmp_path / "link").symlink_to(bundle)

    def refused():
        for way in (bundle, tmp_path / "link", find_bundle(run)):
            with pytest.raises(LockHeld), writing_bundle(way, "test", at_once=True):
                pass

    with writing_bundle(tmp_path / "link", "test"):
        assert (run / ".bundle.weft-lock").exists()
        assert Forked(refused).wait() == 0


@pytest.mark.parametrize("method", [LORA, "full"])
def test_saving_replaces_what_a_link_leads_to(encoder, tmp_path, method):
    model = weft.Model(encoder, [A], method)
    model.save(tmp_path / "real")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    weft.Model(encoder, [A, B], method).save(tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert len(names_of(tmp_path / "real")) == 2
    assert {path.name for path in tmp_path.iterdir()} == {"link", "real"}


def test_a_bundle_that_a_killed_writer_had_moved_away_is_found(make, monkeypatch):
    """Where two folders cannot be exchanged in one step: readers wait for the writer, or put it back."""
    bundle = make("bundle", [A, B])
    monkeypatch.setattr(files.ctypes, "CDLL", lambda *a, **k: (_ for _ in ()).throw(OSError()))
    replace, count = os.replace, iter(range(9))

    def killing(a, b):
        if next(count) == 1:
            os.kill(os.getpid(), 9)
        replace(a, b)

    def write():
        os.replace = killing
        with new_folder(bundle) as work:
            (work / "x").touch()

    assert Forked(write).wait() == -9
    assert not bundle.exists()
    assert names_of(bundle) == ["a", "b"]
    weft.copy_task(bundle, "a", bundle, rename="e")
    assert {path.name for path in bundle.parent.iterdir()} == {"bundle"}
